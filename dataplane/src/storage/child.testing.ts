/** For tests: a process of its own that serves storage, to be killed. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Told } from './served.testing.js';

export interface Served {
  child: ChildProcess;
  port: number;
}

export async function serve(told: Told): Promise<Served> {
  const child = fork(fileURLToPath(new URL('./served.testing.js', import.meta.url)));
  const said = once(child, 'message');
  child.send(told);
  const [port] = (await said) as [number];
  return { child, port };
}
