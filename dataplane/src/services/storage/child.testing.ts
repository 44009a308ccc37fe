/** Process that serves storage, for tests to kill. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { ServeRequest } from './served.testing.js';

export interface Served {
  child: ChildProcess;
  port: number;
}

export async function serve(request: ServeRequest): Promise<Served> {
  const child = fork(fileURLToPath(new URL('./served.testing.js', import.meta.url)));
  const reported = once(child, 'message');
  child.send(request);
  const [port] = (await reported) as [number];
  return { child, port };
}
