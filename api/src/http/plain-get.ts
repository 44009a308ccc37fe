/** One GET to a program of the platform at a socket or a port. Out: status and text, limited in time and bytes. */
import { type RequestOptions, request } from 'node:http';

export function plainGet(
  options: RequestOptions,
  { deadlineMs, bytes }: { deadlineMs: number; bytes: number },
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(deadlineMs);
    const outgoing = request({ ...options, signal }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.length > bytes) response.destroy(new Error('the response of the program is larger than its bound'));
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}
