/**
 * Finds the test files and sorts them into sets by their names. Used by scripts/test.mjs.
 *
 * - quick: runs for every change.
 * - long: `*.long.test.ts`, exhaustive tests, and `*cluster.test.ts`, which need a Kubernetes cluster.
 * - fresh: `*fresh.test.ts`, which start from an empty machine and run alone.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

export const SETS = ['quick', 'long', 'fresh'];

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

export function setOf(file) {
  if (isNamed(file, 'fresh')) return 'fresh';
  return isNamed(file, 'long') || needsCluster(file) ? 'long' : 'quick';
}

export const needsCluster = (file) => isNamed(file, 'cluster');

/** `a/dist/cluster.test.js` and `a/dist/x.cluster.test.js` are named `cluster`; `a/dist/my-cluster.test.js` isn't. */
const isNamed = (file, word) => new RegExp(`(^|[./])${word}\\.test\\.js$`).test(file);

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

/** True if the name contains one of `parts`, which may end in `.ts`, or if there are none. */
export const isWanted = (file, parts) =>
  parts.length === 0 || parts.some((part) => nameOf(file).includes(part.replace(/\.[jt]s$/, '')));
