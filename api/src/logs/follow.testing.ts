/** Follows a log as server-sent events, for tests. */
import { request } from 'node:http';

export interface FollowOptions {
  /** The API's Unix socket. */
  socketPath: string;
  token: string;
  headers?: Record<string, string>;
}

/** Reads over a real connection until `enough` accepts the text that has arrived, or the response ends. */
export async function follow(
  url: string,
  enough: (text: string) => boolean,
  { socketPath, token, headers = {} }: FollowOptions,
): Promise<{ status: number; text: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  const sent = { authorization: `Bearer ${token}`, accept: 'text/event-stream', ...headers };
  const outgoing = request({ socketPath, path: url, headers: sent, agent: false }, (response) => {
    let text = '';
    const done = () => resolve({ status: response.statusCode ?? 0, text });
    response.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
      if (enough(text)) done();
    });
    response.on('close', done);
  });
  outgoing.on('error', reject).end();
  try {
    return await promise;
  } finally {
    outgoing.destroy();
  }
}
