/**
 * Shows how many files of a step exist, while prepare.mjs waits for npm or the compiler. It is a thread, because that
 * wait blocks the main thread. In: the title, the files, the usual seconds, and a shared array. Out: a line on the
 * terminal, which is erased when the first element of the array becomes 1. Then the second one becomes 1.
 */
import { existsSync, writeSync } from 'node:fs';
import { workerData } from 'node:worker_threads';
import { TimeLeft } from './time-left.mjs';

const POLL_MS = 500;
const { title, files, usualSeconds, signals } = workerData;

const missing = new Set(files);
const done = () => {
  for (const file of missing) if (existsSync(file)) missing.delete(file);
  return files.length - missing.size;
};

const timeLeft = new TimeLeft({ total: files.length, done: done(), usualSeconds, now: Date.now() });
while (Atomics.load(signals, 0) === 0) {
  writeSync(2, `\r\x1b[K… ${title}: ${timeLeft.at(done(), Date.now())}`);
  Atomics.wait(signals, 0, 0, POLL_MS);
}
writeSync(2, '\r\x1b[K');
Atomics.store(signals, 1, 1);
Atomics.notify(signals, 1);
