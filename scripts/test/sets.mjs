/**
 * Finds the test files, and sorts them into sets by the ends of their names. Used by scripts/test.mjs.
 *
 * - quick: every other `*.test.ts`. A file takes at most 20 s alone on a quiet machine, and needs npm's packages, git
 *   and, if it is on PATH, kubectl.
 * - long: `*.long.test.ts`. A file takes longer, kills at random moments, waits for a time, or needs a browser, Python
 *   or a package of the system.
 * - cluster: `*.cluster.test.ts`, which need a Kubernetes cluster.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

const MINUTE_MS = 60_000;

/** `command` runs the set. `limitMs`: a file that takes longer hangs. On a cluster tests wait a lot. */
export const SETS = {
  quick: { command: 'npm test', limitMs: 2 * MINUTE_MS },
  long: { command: 'npm run test:long', limitMs: 20 * MINUTE_MS },
  cluster: { command: 'npm run test:cluster', limitMs: 40 * MINUTE_MS },
};

/** Returns the compiled test files of `folder`, relative to it, without those whose source was removed. */
export function testFiles(folder) {
  const { workspaces } = JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
  return workspaces.flatMap((workspace) => {
    const dist = path.join(folder, workspace, 'dist');
    const names = existsSync(dist) ? readdirSync(dist, { recursive: true }) : [];
    const tests = names.filter((name) => name.endsWith('.test.js'));
    const hasSource = (name) => existsSync(path.join(folder, workspace, 'src', name.replace(/js$/, 'ts')));
    return tests.filter(hasSource).map((name) => path.join(workspace, 'dist', name));
  });
}

/** Returns the name of the file's set, a key of SETS. */
export const setOf = (file) => /\.(long|cluster)\.test\.js$/.exec(file)?.[1] ?? 'quick';

/**
 * Chooses files by parts of their paths. A part that contains `.long` or `.cluster` chooses from that set, any other
 * part from `set`. Returns `chosen`, or `missing`: a line for each part that no file of its set contains.
 */
export function chooseFiles(files, { set, parts }) {
  if (parts.length === 0) return { chosen: files.filter((file) => setOf(file) === set), missing: [] };
  const named = parts.map((part) => ({ part, set: /\.(long|cluster)(\.|$)/.exec(part)?.[1] ?? set }));
  const isOf = (file, each) => setOf(file) === each.set && hasPart(file, each.part);
  return {
    chosen: files.filter((file) => named.some((each) => isOf(file, each))),
    missing: named.filter((each) => !files.some((file) => isOf(file, each))).map((each) => whyMissing(files, each)),
  };
}

function whyMissing(files, { part, set }) {
  const sets = new Set(files.filter((file) => hasPart(file, part)).map(setOf));
  if (sets.size === 0) return `no test file has "${part}" in its path`;
  const commands = [...sets].map((other) => `${SETS[other].command} -- ${part}`);
  return `no test file of the ${set} set has "${part}" in its path; run ${commands.join(' or ')}`;
}

/** True if the path contains the part, with or without `src/`. */
const hasPart = (file, part) =>
  [nameOf(file), sourceOf(file)].some((name) => name.replace(/\.js$/, '.ts').includes(part.replace(/\.js$/, '.ts')));

/** Matches a file that measures processor time or memory, or the service that a tenant gets before it is stopped. */
const MEASURES = /processorTimeOf|medianOfFive|longestTurn|TURN_MS|\brss\b|\bgrown\b/;
/** Matches a file that changes its process for later files, or that earlier files would affect. */
const OWN_PROCESS = /heap|process\.(env|on|exit|memoryUsage|argv)|registerHooks|setFlags|\/proc\/self/i;

const textOf = (folder, file) => readFileSync(path.join(folder, file), 'utf8');

/** True for a file of the quick set that needs a core: the other sets have no more lanes than there are cores. */
export const measures = (folder, file) => setOf(file) === 'quick' && MEASURES.test(textOf(folder, file));

/** True if the file may run in a process after other files of its workspace. */
export const sharesProcess = (folder, file) =>
  setOf(file) === 'quick' &&
  !file.startsWith('e2e/') &&
  !measures(folder, file) &&
  !OWN_PROCESS.test(textOf(folder, file));

/** Returns the source of a compiled file: `a/src/b.test.ts` for `a/dist/b.test.js`. */
export const sourceOf = (file) => file.replace('/dist/', '/src/').replace(/js$/, 'ts');

/** Returns the source's path without `src`: `program/dist/json.test.js` is `program/json.test.js`. */
export const nameOf = (file) => file.replace('/dist/', '/');
