/**
 * Orders test files so that all lanes end at about the same time, and shows the number of finished files and the
 * remaining time.
 */
import { minutes } from '../time-left.mjs';
import { nameOf } from './sets.mjs';

/** Estimate for a file that never ran here: files that start a whole platform take longer. */
const GUESS_SECONDS = { e2e: 30, other: 5 };

/** Returns the seconds that `file` will take. `times` has those of its last run, by name. */
function expected(file, times) {
  return times.get(nameOf(file)) ?? (file.startsWith('e2e/') ? GUESS_SECONDS.e2e : GUESS_SECONDS.other);
}

/** Returns `files`, the longest first. */
export function longestFirst(files, times) {
  return files.toSorted((a, b) => expected(b, times) - expected(a, times) || (a < b ? -1 : 1));
}

/** Maximum seconds of the files that share a process. */
const PROCESS_SECONDS = 60;

/** Returns lists of files for one process each, the longest list first. `shares(file)`: others may run before it. */
export function processesOf(files, times, shares) {
  const open = new Map();
  const lists = [];
  for (const file of longestFirst(files, times)) {
    if (!shares(file)) {
      lists.push([file]);
      continue;
    }
    const workspace = file.split('/')[0];
    const seconds = expected(file, times);
    let process = open.get(workspace);
    if (!process || process.seconds + seconds > PROCESS_SECONDS) {
      process = { files: [], seconds: 0 };
      open.set(workspace, process);
      lists.push(process.files);
    }
    process.files.push(file);
    process.seconds += seconds;
  }
  const secondsOf = (list) => list.reduce((sum, file) => sum + expected(file, times), 0);
  return lists.toSorted((a, b) => secondsOf(b) - secondsOf(a) || (a[0] < b[0] ? -1 : 1));
}

export class Progress {
  #times;
  #lanes;
  #waiting;
  #running = new Map();
  #done = 0;
  #total;
  #now;

  /** `now` returns milliseconds. */
  constructor(files, { times, lanes, now = Date.now }) {
    this.#times = times;
    this.#lanes = lanes;
    this.#waiting = new Set(files);
    this.#total = files.length;
    this.#now = now;
  }

  start(file) {
    this.#waiting.delete(file);
    this.#running.set(file, this.#now());
  }

  end(file) {
    this.#running.delete(file);
    this.#done += 1;
  }

  /** Returns `34 of 225 files, about 4:10 left`. */
  toString() {
    return `${this.#done} of ${this.#total} files, about ${minutes(this.secondsLeft())} left`;
  }

  /** Returns at least the rest of the longest file, as no two lanes share a file. */
  secondsLeft() {
    const rest = [...this.#running].map(([file, begin]) =>
      Math.max(0, expected(file, this.#times) - (this.#now() - begin) / 1000),
    );
    for (const file of this.#waiting) rest.push(expected(file, this.#times));
    const sum = rest.reduce((total, seconds) => total + seconds, 0);
    return Math.max(sum / this.#lanes, ...rest, 0);
  }
}

/** Prints lines above a line that is rewritten, if the output is a terminal; otherwise only the lines. */
export class Screen {
  #output;

  constructor(output = process.stdout) {
    this.#output = output;
  }

  /** True if progress has a line of its own. */
  get rewrites() {
    return this.#output.isTTY === true;
  }

  line(text, status = '') {
    this.#output.write(this.rewrites ? `\r\x1b[K${text}\n` : `${text}\n`);
    this.status(status);
  }

  status(text) {
    if (this.rewrites) this.#output.write(`\r\x1b[K${text}`);
  }
}
