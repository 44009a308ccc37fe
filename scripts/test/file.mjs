/**
 * Runs compiled test files in a process with its own folders, and adds up the counts of uvu. A file that takes too long
 * is ended with every process that it started. Called by scripts/test.mjs.
 */
import { spawn } from 'node:child_process';
import { readFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { nodeBinary, root } from '../prepare.mjs';
import { BEGIN, END } from './file-marks.mjs';
import { TestPlace } from './leftovers.mjs';
import { programLinesOf } from './program-log.mjs';
import { nameOf } from './sets.mjs';

const SEVERAL_FILES = fileURLToPath(new URL('several-files.mjs', import.meta.url));
/** Number of failures, and of lines of each, that are shown again at the end of a run. */
const MOST_REASONS = 10;
const LINES_OF_REASON = 8;
const LONGEST_LINE = 160;
const LONGEST_REASON = 400;
const LONGEST_OUTPUT = 200_000;
/** Time for which a process that outlives the file may keep its output open. */
const HELD_OPEN_MS = 5_000;

/**
 * Runs the files one after another. `shared` is the folder of the run; `environment` is added to that of the process;
 * `limitMs` is the time for one file. Calls `onBegin(file)` and `onEnd(file, result)` once for each file. Leftovers are
 * known when the process has ended, and are notes of its last file. If the process ends early, the files that it did
 * not reach run in another one.
 */
export async function runTestFiles(files, options) {
  for (let rest = files; rest.length > 0; ) rest = await runProcess(rest, options);
}

/** Resolves to the files that the process did not reach. */
async function runProcess(files, { shared, environment, limitMs, onBegin, onEnd }) {
  const place = new TestPlace(shared);
  const running = new RunningFile(place, limitMs);
  const outputs = new FileOutputs(files, {
    onBegin: (file) => {
      running.begin(file);
      onBegin(file);
    },
    // The log is removed with the process.
    onEnd: (file, result) =>
      onEnd(file, { ...result, programs: result.reasons.map((reason) => programLinesOf(running.logFile, reason)) }),
  });
  const { code } = await runNode([SEVERAL_FILES, ...files.map((file) => path.join(root, file))], {
    environment: {
      ...environment,
      SLIPWAY_TEST_SHARED: shared,
      SLIPWAY_TEST_DATA: place.data,
      SLIPWAY_TEST_CURRENT: running.currentFile,
      SLIPWAY_TEST_LOG: running.logFile,
      SLIPWAY_TEST_LIMIT_MS: limitMs,
      NODE_COMPILE_CACHE: path.join(shared, 'compile-cache'),
      TMPDIR: place.tmp,
    },
    onStart: (pid) => place.track(pid),
    onOutput: (text) => outputs.add(text),
  });
  const hung = running.end();
  if (hung) outputs.add(`\n${hung}\n`);
  const rest = outputs.end(code, hung ? [] : await place.clear());
  running.remove();
  return rest;
}

/** The files that run at this moment. */
const allRunning = new Set();

/** Returns a line for each file that runs at this moment, with the name of its test. */
export const runningFiles = () =>
  [...allRunning].map(({ file, test }) => `${nameOf(file)}${test ? `: "${test}"` : ''}`);

/** Ends the process of a file, and all that it started, when the file takes longer than `limitMs`. */
class RunningFile {
  file;
  #place;
  #limitMs;
  #timer;
  #hung;

  constructor(place, limitMs) {
    this.#place = place;
    this.#limitMs = limitMs;
  }

  /** The process writes the name of its present test into this file. */
  get currentFile() {
    return `${this.#place.data}.test`;
  }

  /** The process appends the output of the programs that its tests start. */
  get logFile() {
    return `${this.#place.data}.log`;
  }

  get test() {
    try {
      return readFileSync(this.currentFile, 'utf8');
    } catch {
      return '';
    }
  }

  begin(file) {
    this.file = file;
    allRunning.add(this);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#endHung(), this.#limitMs);
  }

  #endHung() {
    const test = this.test;
    const seconds = Math.round(this.#limitMs / 1000);
    this.#hung = `   FAIL  ${test ? `"${test}"` : 'around the tests'}\n    The file did not end within ${seconds} s.`;
    this.#place.abandon();
  }

  /** Returns the failure of a file that hung. */
  end() {
    clearTimeout(this.#timer);
    allRunning.delete(this);
    return this.#hung;
  }

  remove() {
    for (const file of [this.currentFile, this.logFile]) rmSync(file, { force: true });
  }
}

/** Divides the output of a process among its files, by the lines that scripts/test/several-files.mjs prints. */
class FileOutputs {
  #waiting;
  #watcher;
  /** An incomplete line, until the next chunk. */
  #line = '';
  #text = '';
  #begin = Date.now();

  constructor(files, watcher) {
    this.#waiting = [...files];
    this.#watcher = watcher;
  }

  add(chunk) {
    const lines = (this.#line + chunk).split('\n');
    this.#line = lines.pop();
    for (const line of lines) this.#take(line);
  }

  #take(line) {
    if (line.startsWith(BEGIN)) {
      this.#begin = Date.now();
      this.#watcher.onBegin(this.#waiting[0]);
      return;
    }
    // The result of the last file waits for the end of the process.
    if (line.startsWith(END)) {
      if (this.#waiting.length > 1) this.#report(0, []);
      return;
    }
    this.#text = `${this.#text}${line}\n`.slice(-LONGEST_OUTPUT);
  }

  /** Called when the process has ended. Returns the files that it did not reach. */
  end(code, left) {
    if (this.#line !== '') this.add('\n');
    this.#report(this.#waiting.length > 1 ? code || 1 : code, left);
    return this.#waiting;
  }

  #report(code, left) {
    const file = this.#waiting.shift();
    const output = this.#text;
    this.#text = '';
    this.#watcher.onEnd(file, {
      ...countsOf(output, code),
      ...{ output, seconds: (Date.now() - this.#begin) / 1000 },
      reasons: reasonsIn(output),
      notes: [...notesIn(output), ...left.map((line) => `! left behind: ${line}`)],
    });
  }
}

/**
 * Returns each failed test of uvu's output in a few lines: its name, its message, and the place in our sources. A run
 * repeats them at its end.
 */
export function reasonsIn(output) {
  const failures = output.matchAll(/^ {3}(FAIL {2}.*)\n((?:(?! {3}FAIL| {2}Total:).*\n){0,60})/gm);
  return [...failures].slice(0, MOST_REASONS).map(([, title, rest]) => {
    const lines = rest.split('\n').map((line) => line.trim());
    const place = lines.map((line) => line.match(/^at .*?([^/\s]+\/src\/.*?:\d+)/)?.[1]).find(Boolean);
    const message = lines.filter((line) => line !== '' && !line.startsWith('at ')).slice(0, LINES_OF_REASON);
    const text = message.map((line) => line.slice(0, LONGEST_LINE)).join('\n');
    return [title.slice(0, LONGEST_LINE), text.slice(0, LONGEST_REASON), ...(place ? [`at ${place}`] : [])].join('\n');
  });
}

const notesIn = (output) => [...output.matchAll(/^# .*$/gm)].map(([line]) => line);

function countsOf(output, code) {
  const count = (name) => Number(output.match(new RegExp(`^\\s+${name}:\\s+(\\d+)`, 'm'))?.[1] ?? 0);
  const [ran, passed] = ['Total', 'Passed'].map(count);
  const reasons = notesIn(output).filter((line) => line.startsWith('# skipped')).length;
  const failed = Math.max(ran - passed, code === 0 && (ran > 0 || reasons > 0) ? 0 : 1);
  return { passed, failed, skipped: count('Skipped') + reasons };
}

/** Resolves to the output and the exit status of `node args`. */
export function runNode(args, { environment = {}, onStart, onOutput } = {}) {
  const hooks = `--import=${new URL('preload.mjs', import.meta.url)}`;
  const options = ['--disable-warning=ExperimentalWarning', hooks];
  return new Promise((resolve) => {
    const child = spawn(nodeBinary(), [...options, ...args], {
      cwd: root,
      env: { ...process.env, FORCE_COLOR: '0', NO_COLOR: '1', ...environment },
    });
    onStart?.(child.pid);
    let output = '';
    const take = (chunk) => {
      output = (output + chunk).slice(-LONGEST_OUTPUT);
      onOutput?.(chunk);
    };
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', take);
    child.on('exit', (code) => {
      // An orphan may hold the streams open.
      setTimeout(() => child.stdout.destroy() && child.stderr.destroy(), HELD_OPEN_MS).unref();
      child.once('close', () => resolve({ output, code }));
    });
  });
}
