/**
 * Runs the tests on a Kubernetes cluster in the fastest order. In: the files, and how one is run. Out: nothing; the
 * runner counts. Files that need no cluster run at the same time, as both wait a lot. The images are built from the
 * beginning of the run, beside the quick set if that comes first. Files that install or upgrade Slipway themselves then
 * have the empty cluster. Slipway is installed once for the files that use only projects of their own, which run two at
 * a time. Files with faults share that installation one at a time, and run last and alone. e2e/src/cluster/main.ts
 * finds the cluster, and restores it at the end.
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { nodeBinary, root } from '../prepare.mjs';

/**
 * Files that need the cluster for themselves, by the beginning of their names. `empty`: they install, upgrade or apply
 * manifests themselves. `faults`: they end processes that other files use.
 */
const ALONE = {
  empty: ['admission.', 'examples.', 'explain.', 'manifests.', 'upgrade.'],
  faults: ['services.', 'sites.', 'chaos.', 'siege.'],
};

const isOf = (group) => (file) => ALONE[group].some((name) => path.basename(file).startsWith(name));

/** Returns the files in three groups; a file that is in neither list shares the installation. */
export function groupsOf(files) {
  const [empty, faults] = ['empty', 'faults'].map((group) => files.filter(isOf(group)));
  const shared = files.filter((file) => ![empty, faults].some((group) => group.includes(file)));
  return { empty, shared, faults };
}

/**
 * True for a file that needs only the API server, in a state that no other test changes. These run before the others.
 */
export const needsApiServer = (file) => file.startsWith('apiserver/');

/** Starts the cluster, and loads the images into it beside the tests that run then. */
export async function startCluster(any) {
  const finder = new Finder(any);
  const found = (await finder.answer()) ?? {};
  const { missing, refused, name, kubeconfig, seconds } = found;
  if (missing) console.log(`# the tests that need a cluster are skipped: ${missing}`);
  else console.log(kubeconfig ? `✓ ${name} runs (${seconds} s)` : `✗ ${refused ?? 'no cluster came up'}`);
  return { finder, found, images: kubeconfig ? done(finder, 'images', 'it has the images') : undefined };
}

/**
 * Runs `files` on a cluster, and beside them, in `lanes` lanes, `others`, which need none. `run(files, lanes,
 * environment)` runs files; its lanes are a list of the promises that each awaits first. Resolves with the number of
 * failures of the cluster itself.
 */
export async function runOnCluster(files, { cluster, others, lanes, run }) {
  const { finder, found, images } = cluster;
  const { missing, kubeconfig, overlay } = found;
  if (!kubeconfig) {
    await run(others, Array.from({ length: lanes }));
    if (missing) await run(files, NOW);
    return (await finder.leave()) || (missing ? 0 : 1);
  }
  const environment = { SLIPWAY_E2E_KUBECONFIG: kubeconfig, SLIPWAY_E2E_OVERLAY: overlay };
  const failures = await runBeside(files, { finder, images, others, lanes, environment, run });
  const ending = await finder.leave();
  if (ending > 0) console.log('✗ the cluster could not be left as it was found');
  return failures + ending;
}

const NOW = [undefined];

/**
 * `images` resolves to false if loading them failed, and `finder.answer(command)` to undefined if the command failed.
 */
export async function runBeside(files, { finder, images, others, lanes, environment, run }) {
  const onApiServer = run(others.filter(needsApiServer), NOW);
  const beside = run(
    others.filter((file) => !needsApiServer(file)),
    [onApiServer, ...Array.from({ length: lanes - 1 })],
  );
  const ready = Promise.all([images, onApiServer]).then(([areLoaded]) => areLoaded);
  const groups = runGroups(groupsOf(files), finder, { environment, run, ready, beside });
  const [failures] = await Promise.all([groups, beside]);
  return failures;
}

/** Resolves to 1 at the first step that fails. Files with faults measure latency, so nothing runs beside them. */
async function runGroups({ empty, shared, faults }, finder, { environment, run, ready, beside }) {
  if (!(await ready)) return 1;
  await run(empty, NOW, environment);
  if (shared.length + faults.length === 0) return 0;
  if (!(await done(finder, 'install', 'Slipway is installed on it'))) return 1;
  const inAll = { ...environment, SLIPWAY_E2E_INSTALLED: '1' };
  await run(shared, [undefined, beside], inAll);
  await beside;
  await run(faults, NOW, inAll);
  return (await finder.answer('uninstall')) ? 0 : 1;
}

async function done(finder, command, promise) {
  const answer = await finder.answer(command);
  console.log(answer ? `✓ ${promise} (${answer.seconds} s)` : `✗ failed: ${promise}`);
  return answer !== undefined;
}

/** The program that finds the cluster, and installs Slipway there on request. */
class Finder {
  #process;
  #lines;
  #ended;

  constructor(any) {
    const program = path.join(root, 'e2e/dist/cluster/main.js');
    this.#process = spawn(nodeBinary(), [program, ...(any ? ['--any'] : [])], {
      cwd: root,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#ended = new Promise((resolve) => this.#process.on('close', resolve));
    this.#lines = createInterface({ input: this.#process.stdout })[Symbol.asyncIterator]();
    this.#process.stdin.on('error', () => {});
  }

  /** Sends a command, if one is given, and returns the next line; undefined if the program has ended. */
  async answer(command) {
    if (command !== undefined) this.#process.stdin.write(`${command}\n`);
    const { value } = await this.#lines.next();
    return value === undefined ? undefined : JSON.parse(value);
  }

  /** Makes the program restore the cluster; returns 1 if that failed. */
  async leave() {
    this.#process.stdin.end();
    return (await this.#ended) === 0 ? 0 : 1;
  }
}
