/**
 * Gives a test file its own folders, and finds its leftovers: files in them, processes and mounts. Called by
 * scripts/test/file.mjs for each file, and by scripts/test.mjs for leftovers that can't be assigned to a file.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ProcessTracker } from './processes.mjs';

/** Time for processes to end by themselves: Postgres ends within 5 s of its supervisor. */
const ENDING_MS = 10_000;
const POLL_MS = 50;
const SECOND_LOOK_MS = 20;

/** Directly below the root folder, as a Unix socket's path has at most 107 bytes. */
const TEMPORARY = realpathSync('/tmp');

/** The folders that are not removed yet. */
const open = new Set();

/**
 * Ends the processes of every test file at once, and removes their folders, after the runner received a signal to end.
 */
export function abandonAll() {
  for (const place of open) place.abandon();
}

export class TestPlace {
  /** The file's TMPDIR, and a folder in `shared` for its Postgres data. Other accounts may enter both. */
  tmp;
  data;
  #tracker;
  #endingMs;

  constructor(shared, { endingMs = ENDING_MS } = {}) {
    this.#endingMs = endingMs;
    this.tmp = mkdtempSync(path.join(TEMPORARY, 'slipway-t-'));
    this.data = mkdtempSync(path.join(shared, 't-'));
    for (const folder of [this.tmp, this.data]) chmodSync(folder, 0o711);
    open.add(this);
  }

  track(pid) {
    this.#tracker = new ProcessTracker(pid);
    return this.#tracker;
  }

  /** Returns a line for each leftover of the file, and removes it. The file's own process has ended. */
  async clear() {
    this.#tracker.stop();
    const folders = [this.tmp, this.data];
    const processes = await this.#lasting(folders);
    for (const { pid } of processes) end(pid);
    if (processes.length > 0) await this.#lasting(folders);
    const mounts = mountPoints().filter((mount) => folders.some((folder) => mount.startsWith(`${folder}/`)));
    const files = folders.flatMap((folder) => namesIn(folder).map((name) => path.join(folder, name)));
    for (const mount of mounts) execFileSync('umount', ['--lazy', mount]);
    this.#remove();
    return [
      ...processes.map(({ pid, command }) => `process ${pid}: ${command}`),
      ...mounts.map((mount) => `mount ${mount}`),
      ...files,
    ];
  }

  abandon() {
    const folders = [this.tmp, this.data];
    this.#tracker?.stop();
    // The second round finds processes that were just starting.
    for (let look = 0; look < 2; look += 1) for (const { pid } of this.#tracker?.running(folders) ?? []) end(pid);
    this.#remove();
  }

  #remove() {
    open.delete(this);
    for (const folder of [this.tmp, this.data]) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  }

  async #lasting(folders) {
    const deadline = Date.now() + this.#endingMs;
    for (let emptyLooks = 0; ; ) {
      const running = this.#tracker.running(folders);
      emptyLooks = running.length === 0 ? emptyLooks + 1 : 0;
      // A process in the middle of `exec` shows neither environment nor arguments.
      if (emptyLooks === 2 || (running.length > 0 && Date.now() > deadline)) return running;
      await sleep(running.length === 0 ? SECOND_LOOK_MS : POLL_MS);
    }
  }
}

function end(pid) {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has already ended.
  }
}

function mountPoints() {
  if (process.platform !== 'linux') return [];
  const lines = readFileSync('/proc/self/mountinfo', 'utf8').trim().split('\n');
  return lines.map((line) => line.split(' ')[4]);
}

const STATE = '/var/lib/slipway';
/** Copies of programs that all platforms of a machine share, which stay. */
const SHARED_COPY = /^(deno|postgres)-/;
/** Folders of all test runs, and the locks between them. */
const OF_RUNS = /^slipway-(t|run)-|\.lock$/;

/**
 * Checks the machine outside of the folders of test files. Nothing there says which test file, if any, made a change.
 */
export class MachineState {
  #before = machineState();

  /** Returns a line for each thing that was not there before. */
  added() {
    const before = new Set(this.#before);
    return machineState().filter((line) => !before.has(line));
  }
}

function machineState() {
  return [
    ...namesIn(STATE)
      .filter((name) => !SHARED_COPY.test(name))
      .map((name) => madeAt(path.join(STATE, name))),
    ...namesIn(TEMPORARY)
      .filter((name) => name.startsWith('slipway-') && !OF_RUNS.test(name))
      .map((name) => madeAt(path.join(TEMPORARY, name))),
    ...mountPoints().map((mount) => `mount ${mount}`),
    ...accounts().map((account) => `account ${account}`),
  ];
}

const madeAt = (file) =>
  `${file}, made at ${statSync(file, { throwIfNoEntry: false })?.birthtime.toISOString() ?? 'an unknown time'}`;

/** The account of Postgres stays, like the copies of programs. */
function accounts() {
  const lines = process.platform === 'linux' ? readFileSync('/etc/passwd', 'utf8').split('\n') : [];
  return lines.map((line) => line.split(':')[0]).filter((name) => name !== 'slipway');
}

function namesIn(folder) {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
