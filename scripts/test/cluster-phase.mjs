/**
 * Runs the tests on a Kubernetes cluster in the fastest order. In: the files, and how they are run. Out: nothing; the
 * runner counts. The images are built from the beginning on. Files that need only the API server run meanwhile. Files
 * that install or upgrade Slipway themselves then have the empty cluster. Slipway is installed once for the files that
 * use only projects of their own, which run two at a time. Files with faults share that installation one at a time, and
 * run last. e2e/src/cluster/main.ts finds the cluster, and restores it at the end.
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

/** True for a file that needs only an API server, in a state that no other test has changed. */
const needsApiServer = (file) => file.startsWith('apiserver/');

/** Returns the files in four groups; a file that is in none of the others shares the installation. */
export function groupsOf(files) {
  const apiServer = files.filter(needsApiServer);
  const others = files.filter((file) => !needsApiServer(file));
  const [empty, faults] = ['empty', 'faults'].map((group) => others.filter(isOf(group)));
  const shared = others.filter((file) => ![empty, faults].some((group) => group.includes(file)));
  return { apiServer, empty, shared, faults };
}

/**
 * Runs `files` on a cluster. `any`: it may be the one that KUBECONFIG names, or a new one of kind's. `run(files, lanes,
 * environment)` runs files, and resolves to the number that failed. Resolves with the number of failures of the cluster
 * itself.
 */
export async function runOnCluster(files, { any, run }) {
  const finder = new Finder(any);
  const { missing, refused, name, kubeconfig, overlay, seconds } = (await finder.answer()) ?? {};
  if (!kubeconfig) {
    console.log(missing ? `# the tests are skipped: ${missing}` : `✗ ${refused ?? 'no cluster came up'}`);
    if (missing) await run(files, 1);
    return (await finder.leave()) || (missing ? 0 : 1);
  }
  console.log(`✓ ${name} runs (${seconds} s)`);
  const environment = { SLIPWAY_E2E_KUBECONFIG: kubeconfig, SLIPWAY_E2E_OVERLAY: overlay };
  const failures = await runGroups(groupsOf(files), { finder, environment, run });
  const ending = await finder.leave();
  if (ending > 0) console.log('✗ the cluster could not be left as it was found');
  return failures + ending;
}

/** Resolves to 1 at the first step that fails. Files with faults measure latency, so nothing runs beside them. */
export async function runGroups({ apiServer, empty, shared, faults }, { finder, environment, run }) {
  const needsImages = empty.length + shared.length + faults.length > 0;
  const images = needsImages ? done(finder, 'images', 'it has the images') : true;
  await run(apiServer, 1, environment);
  if (!(await images)) return 1;
  await run(empty, 1, environment);
  if (shared.length + faults.length === 0) return 0;
  if (!(await done(finder, 'install', 'Slipway is installed on it'))) return 1;
  const inAll = { ...environment, SLIPWAY_E2E_INSTALLED: '1' };
  const failed = (await run(shared, 2, inAll)) + (await run(faults, 1, inAll));
  if (failed > 0) console.log(`${(await finder.answer('logs'))?.logs ?? 'the programs show no log'}`);
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
