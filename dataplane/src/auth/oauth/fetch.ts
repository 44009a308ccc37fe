/** One request to a provider: bounded in time and size, no redirect followed, and refused in words that hold no secret. */
import { AuthError } from '../errors.js';
import type { Outbound } from '../outbound.js';

const TIMEOUT_MS = 10_000;
const MAX_BYTES = 1024 * 1024;

export async function fetchJson(
  outbound: Outbound,
  url: string,
  options: { body?: URLSearchParams; headers?: Record<string, string> } = {},
): Promise<Record<string, unknown> | unknown[]> {
  const { body, headers } = options;
  try {
    const answer = await outbound.fetch(url, {
      ...(body ? { method: 'POST', body } : {}),
      headers: { accept: 'application/json', 'user-agent': 'slipway', ...headers },
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!answer.ok) {
      await answer.body?.cancel();
      throw providerFailed();
    }
    return JSON.parse(await readBounded(answer)) as Record<string, unknown> | unknown[];
  } catch (error) {
    throw error instanceof AuthError ? error : providerFailed();
  }
}

export const providerFailed = () => new AuthError(500, 'unexpected_failure', 'Unable to exchange external code');

async function readBounded(answer: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of answer.body ?? []) {
    size += chunk.length;
    if (size > MAX_BYTES) throw providerFailed();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
