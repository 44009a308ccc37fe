/**
 * Program with a watchdog for tests, whose main thread does the work of its messages. In: a project, an operation, and
 * the work. Out: a message after each.
 */
import { stat, writeSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { startWatchdog, underWay } from './watchdog.js';

export interface Order {
  project?: string;
  operation?: string;
  /**
   * `spin` never ends; `wait` blocks the thread without processor time; `work` is `turns` of `turnMs` of processor
   * time, each with a line on standard output in its middle.
   * `other-spin` names the project in one event, and spins in another event of the same turn.
   */
  doing: 'spin' | 'late-spin' | 'other-spin' | 'native-spin' | 'wait' | 'work';
  waitMs?: number;
  turns?: number;
  turnMs?: number;
}

const [record = '', limitMs = ''] = process.argv.slice(2);
startWatchdog({ program: 'test', limitMs: Number(limitMs), ...(record && { record }) });

function spin(): never {
  for (;;) Math.random();
}

function useProcessor(ms: number): void {
  const begin = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(begin);
    if ((user + system) / 1000 > ms) return;
  }
}

/** Runs both in one turn of the event loop: their events wait until the thread no longer blocks. */
function twoEvents(first: () => void, second: () => void): void {
  const work = [first, second];
  for (let count = work.length; count > 0; count--) stat('.', () => work.shift()?.());
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
}

process.on('message', async ({ project, operation, doing, waitMs = 0, turns = 0, turnMs = 20 }: Order) => {
  if (doing === 'other-spin') return void twoEvents(() => underWay(project ?? '', operation ?? ''), spin);
  if (project !== undefined) underWay(project, operation ?? '');
  if (doing === 'spin') spin();
  if (doing === 'native-spin') for (const bytes = Buffer.alloc(2 ** 28); ; ) bytes.indexOf('x');
  if (doing === 'late-spin') setTimeout(spin, 5);
  if (doing === 'wait') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, waitMs);
  let longestMs = 0;
  for (let turn = 0; doing === 'work' && turn < turns; turn++) {
    const begin = performance.now();
    useProcessor(turnMs / 2);
    writeSync(1, 'turn\n');
    useProcessor(turnMs / 2);
    longestMs = Math.max(longestMs, performance.now() - begin);
    await pause(1);
  }
  process.send?.({ longestMs });
});
process.send?.({ ready: true });
