/**
 * Finds the processes that a test file started, by /proc on Linux. A process of another account, or with an environment
 * of its own, is found by its ancestors. These are recorded while the file runs, as an orphan has none later.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const SAMPLE_MS = 250;
/**
 * Marks the environment of a program that several test files use in turn: scripts/test/reference-server.mjs ends it.
 */
const OUTLIVES_TEST = 'SLIPWAY_OUTLIVES_TEST=1';

/** Records the descendants of `pid` until `stop()`. */
export class ProcessTracker {
  /** Process ids, each with its start time, as the system reuses ids. */
  #known = new Map();
  #timer;

  constructor(pid) {
    const own = listProcesses().find((each) => each.pid === pid);
    if (own) this.#known.set(pid, own.started);
    this.#sample();
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** The number of processes recorded so far. */
  get size() {
    return this.#known.size;
  }

  #sample() {
    return this.#withDescendants(sampledProcesses(), []);
  }

  /**
   * Returns the recorded processes that still run, the processes that name one of `folders`, and the descendants of
   * both.
   */
  running(folders) {
    const all = listProcesses();
    const named = all.filter(({ pid }) => pid !== process.pid && namesOneOf(pid, folders));
    return this.#withDescendants(all, named)
      .filter(({ pid }) => !readIf(`/proc/${pid}/environ`).includes(OUTLIVES_TEST))
      .map(({ pid }) => ({ pid, command: commandOf(pid) }));
  }

  #withDescendants(all, others) {
    const known = all.filter(({ pid, started }) => this.#known.get(pid) === started);
    const tree = withDescendants(all, [...others, ...known]);
    for (const { pid, started } of tree) this.#known.set(pid, started);
    return tree;
  }
}

/** Returns `processes` with their descendants among `all`. A parent is known by its id and start time. */
export function withDescendants(all, processes) {
  const tree = new Set(processes);
  // Without Map.groupBy, which Node 20 does not have.
  const children = new Map();
  for (const each of all) {
    const parent = `${each.parent} ${each.parentStarted}`;
    const siblings = children.get(parent);
    if (siblings) siblings.push(each);
    else children.set(parent, [each]);
  }
  // The set grows during the loop.
  for (const { pid, started } of tree) for (const child of children.get(`${pid} ${started}`) ?? []) tree.add(child);
  return [...tree];
}

const listProcesses = () => withParents(processIds().flatMap((pid) => processOf(pid) ?? []));

/** Adds the start time of its parent to each process that has none yet. */
function withParents(processes) {
  const startOf = new Map(processes.map(({ pid, started }) => [pid, started]));
  for (const each of processes) each.parentStarted ??= startOf.get(each.parent) ?? 'ended';
  return processes;
}

/** The processes of the last sample, and its time. */
let sampled = new Map();
let sampledAt = 0;
/** After a longer pause between samples, an id may belong to another process. */
const LONGEST_PAUSE_MS = 2_000;

/**
 * Like `listProcesses`, but each process is as it was when first seen: four full samples a second took a twelfth of a
 * core, beside a cluster, and the caller needs an orphan's first parent.
 */
function sampledProcesses() {
  const before = performance.now() - sampledAt > LONGEST_PAUSE_MS ? new Map() : sampled;
  sampled = new Map(processIds().map((pid) => [pid, before.get(pid) ?? processOf(pid)]));
  sampledAt = performance.now();
  return withParents([...sampled.values()].filter((each) => each !== undefined));
}

const processIds = () => (process.platform === 'linux' ? readdirSync('/proc').map(Number).filter(Boolean) : []);

/** Zombies are left out: they use nothing, and their parent may be a container's first process, which reaps none. */
function processOf(pid) {
  const status = readIf(`/proc/${pid}/stat`);
  // The program's name is in parentheses and may contain any character.
  const fields = status.slice(status.lastIndexOf(')') + 2).split(' ');
  return status === '' || fields[0] === 'Z' ? undefined : { pid, parent: Number(fields[1]), started: fields[19] };
}

function namesOneOf(pid, folders) {
  const texts = [readIf(`/proc/${pid}/environ`), readIf(`/proc/${pid}/cmdline`), linkIf(`/proc/${pid}/cwd`)];
  return folders.some((folder) => texts.some((text) => text.includes(folder)));
}

const commandOf = (pid) => readIf(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim().slice(0, 200);

/** Returns an empty text if the process ended, or belongs to an account whose processes this one may not read. */
function readIf(file) {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}

function linkIf(file) {
  try {
    return readlinkSync(file);
  } catch {
    return '';
  }
}
