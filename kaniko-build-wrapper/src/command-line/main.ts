/**
 * The command line: builds a repository and publishes its output in a folder of sites, without a platform. In:
 * arguments. Out: one line of JSON for each event, and the exit code of the command that failed.
 */
import { chmodSync, mkdirSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { removeFolder } from '@slipway/sandbox';
import { type DeploymentLimits, OutputRefused, Sites } from '@slipway/sites';
import { trimCache } from '../project-cache.js';
import { type BuildEvents, BuildFailed } from '../request.js';
import { runBuild } from '../run-build.js';
import { InvalidArgument, readArguments, type SiteBuild } from './options.js';

const MIB = 2 ** 20;
const LIMITS: DeploymentLimits = { files: 20_000, fileBytes: 25 * MIB, totalBytes: 1024 * MIB };
/** Number of deployments that are kept beside the live one. */
const DEPLOYMENTS_KEPT = 5;
/** Exit codes: an invalid argument, and a failure without an exit code. */
const [INVALID, FAILED] = [2, 1];

const tell = (event: string, details: object) => process.stdout.write(`${JSON.stringify({ event, ...details })}\n`);

const EVENTS: BuildEvents = {
  step: (step) => tell('step', { step }),
  commit: (commit) => tell('commit', { commit }),
  log: (step, text) => tell('log', { step, text }),
};

/** Returns the exit code. */
async function main(args: string[]): Promise<number> {
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort(new Error('stopped')));
  try {
    await buildAndPublish(readArguments(args, process.env), stop.signal);
    return 0;
  } catch (error) {
    if (error instanceof InvalidArgument) {
      process.stderr.write(`${error.message} (npm run build-site -- --help)\n`);
      return INVALID;
    }
    const { message } = error as Error;
    const { step, exitCode } = error instanceof BuildFailed ? error : { step: null, exitCode: null };
    const isForOwner = error instanceof BuildFailed || error instanceof OutputRefused || stop.signal.aborted;
    tell('failed', { step, exitCode, message: isForOwner ? message : `not built: ${message}` });
    return exitCode || FAILED;
  }
}

async function buildAndPublish({ publish, cache, ...request }: SiteBuild, signal: AbortSignal): Promise<void> {
  const work = realpathSync(mkdtempSync(path.join(tmpdir(), 'site-')));
  // The account of the build passes through it.
  chmodSync(work, 0o711);
  const folders = { work: path.join(work, 'work'), cache: cache ?? path.join(work, 'cache') };
  try {
    for (const folder of Object.values(folders)) mkdirSync(folder, { recursive: true, mode: 0o711 });
    const { output, commit, detected } = await runBuild({ ...request, folders }, EVENTS, signal);
    const sites = new Sites(publish.folder);
    const { id, files, bytes, warnings } = await sites.publish(publish.site, request.build, output, LIMITS, signal);
    await sites.goLive(publish.site, id);
    await sites.prune(publish.site, DEPLOYMENTS_KEPT);
    tell('published', { site: publish.site, deployment: id, commit, detected, files, bytes, warnings });
  } finally {
    if (cache !== undefined) await trimCache(cache);
    removeFolder(work);
  }
}

process.exitCode = await main(process.argv.slice(2));
