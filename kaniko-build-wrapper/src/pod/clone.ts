/**
 * The first container of a build's pod. Fetches the git credentials, clones, and writes the context that Kaniko builds
 * from. In: an order. Out: the folder of the context, the log on standard output, and a termination message. No command
 * of the tenant runs here, and no credentials are left when it ends.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { major, minVersion } from 'semver';
import { BuildLog } from '../build-log.js';
import { clone, commitOf, newestCommit } from '../clone.js';
import { type Credentials, fetchCredentials } from '../credentials.js';
import { commandsOf } from '../frameworks.js';
import { innerFolder } from '../inner-folder.js';
import { BuildFailed, type BuildRequest, Refused } from '../request.js';
import type { StepCommand } from '../sealed-command.js';
import { secretValuesOf } from '../secret-values.js';
import { type Manager, type Plan, planOf } from '../toolchain/plan.js';
import { writeContext, writePlainContext } from './context.js';
import { forwardTo } from './forwarder.js';
import { type CloneOrder, CONTEXT, type Ending, type Found } from './order.js';

export interface ClonePlace {
  context: string;
  out: NodeJS.WritableStream;
  signal: AbortSignal;
}

/** Node version for projects that set none: a release that still gets fixes. */
const USUAL_NODE = 24;
/** Limits of the clone: none, because the pod has limits. */
const NO_LIMITS = { milliseconds: 0, processMemoryBytes: 0, memoryBytes: 0, processes: 0, diskBytes: 0 };

/** Resolves with the message for the operator. Rejects if the failure is the platform's, not the project's. */
export async function cloneForKaniko(
  order: CloneOrder,
  { context = CONTEXT, out = process.stdout, signal = new AbortController().signal }: Partial<ClonePlace> = {},
): Promise<Ending> {
  const { ref, build: name, ticket, egressUrl, logBytes, env } = order;
  const credentials = await fetchCredentials(egressUrl, { ref, name, ticket }, signal);
  const secrets = [...secretValuesOf(env), credentials.token ?? '', credentials.deployKey ?? ''];
  const log = new BuildLog(secrets, logBytes, (_, text) => void out.write(text));
  const work = mkdtempSync(path.join(tmpdir(), 'clone-'));
  try {
    return await cloned(order, { credentials, log, work, context });
  } catch (error) {
    if (!(error instanceof Refused) && !(error instanceof BuildFailed)) throw error;
    log.line(error.message);
    const code = error instanceof BuildFailed ? error.exitCode : null;
    return { kind: 'failed', message: error.message, exitCode: code ?? 1 };
  } finally {
    log.flush();
    rmSync(work, { recursive: true, force: true });
  }
}

interface Clone {
  credentials: Credentials;
  log: BuildLog;
  work: string;
  context: string;
}

async function cloned(order: CloneOrder, { credentials, log, work, context }: Clone): Promise<Ending> {
  const request = requestOf(order, credentials, work);
  const [source, home] = [path.join(context, 'source'), path.join(work, 'home')];
  const socket = path.join(work, 'egress.sock');
  for (const folder of [source, home]) mkdirSync(folder, { recursive: true, mode: 0o755 });
  const forwarder = await forwardTo(order.egressUrl, socket);
  try {
    const logged = (bytes: Buffer) => log.output(bytes);
    const run = (command: StepCommand, onOutput = logged) => runInPod(command, onOutput);
    const folders = { source, home, socket };
    const how = { request, folders, account: undefined, proxyUrl: order.egressUrl, run };
    const { unless } = request.source;
    if (unless !== undefined && (await newestCommit({ ...how, run: both(run, logged) })) === unless) {
      return { kind: 'unneeded' };
    }
    await clone(how);
  } finally {
    forwarder.close();
  }
  const commit = commitOf(source);
  log.line(`commit ${commit}`);
  return { kind: 'cloned', commit, detected: prepared(order, { source, commit }, { log, context }) };
}

type Output = (bytes: Buffer) => void;
type Run = (command: StepCommand, onOutput?: Output) => Promise<void>;

/** Returns `run` with output that goes to the log too: it has git's reason for a failure. */
const both =
  (run: Run, logged: Output): Run =>
  (command, onOutput) =>
    run(command, (bytes) => {
      onOutput?.(bytes);
      logged(bytes);
    });

/** Writes the context, and returns the values that the build will use. */
function prepared(
  order: CloneOrder,
  { source, commit }: { source: string; commit: string },
  { log, context }: Pick<Clone, 'log' | 'context'>,
): Found {
  const { settings, env, certificates, egressUrl, processes, mark } = order;
  const root = innerFolder(source, settings.rootDir ?? '.', 'root_dir');
  const plan = planOf(foldersFrom(root, source));
  const { warnings, ...commands } = commandsOf(root, { ...settings, framework: undefined }, plan.manager);
  for (const warning of warnings) log.line(warning);
  const { framework, installCommand, buildCommand, outputDir } = commands;
  const detected = { framework, installCommand, buildCommand, ...(outputDir === undefined ? {} : { outputDir }) };
  const rootDir = path.relative(source, root);
  if (`${installCommand}${buildCommand}`.trim() === '') {
    const output = innerFolder(source, path.join(rootDir, outputDir ?? '.'), 'output_dir');
    if (output !== source) writePlainContext(output, context);
    else renameAll(source, context);
    return detected;
  }
  const version = nodeOf(plan);
  const image = `${order.nodeImage}:${order.nodeTag.replaceAll('{version}', String(version))}`;
  const managerPackage = packageOf(plan.manager);
  const deployment = { COMMIT_SHA: commit, ...order.deployment };
  const variables = { deployment, env, certificates, egressUrl };
  writeContext({ image, rootDir, ...commands, managerPackage, ...variables, processes, mark }, context);
  return { ...detected, nodeVersion: String(version), packageManager: managerPackage ?? plan.manager.name };
}

/** Moves the repository without its history: it is the output of a site without commands. */
function renameAll(source: string, context: string): void {
  rmSync(path.join(source, '.git'), { recursive: true, force: true });
  const moved = `${source}.moved`;
  renameSync(source, moved);
  writePlainContext(moved, context);
}

/** Returns the folder and its parents, up to the repository's folder. */
function foldersFrom(root: string, source: string): string[] {
  return root === source ? [root] : [root, ...foldersFrom(path.dirname(root), source)];
}

/** Returns the oldest major version that the project allows. */
function nodeOf({ node }: Plan): number {
  const least = node === undefined ? null : minVersion(node);
  return least === null ? USUAL_NODE : Math.max(major(least), 18);
}

function packageOf({ name, version }: Manager): string | undefined {
  if (name === 'npm' && version === undefined) return undefined;
  return version === undefined ? name : `${name}@${version}`;
}

function requestOf(order: CloneOrder, credentials: Credentials, work: string): BuildRequest {
  const { ref, build, source, settings, env, certificates, logBytes } = order;
  const file = path.join(work, 'certificates.pem');
  if (certificates !== undefined) writeFileSync(file, certificates);
  return {
    ref,
    build,
    source,
    credentials,
    settings: { ...settings, framework: undefined },
    deployment: order.deployment ?? { BRANCH: '', SITE_URL: '' },
    env,
    folders: { work, cache: path.join(work, 'cache') },
    limits: { ...NO_LIMITS, logBytes },
    reach: { allowed: [] },
    certificates: certificates === undefined ? undefined : file,
  };
}

/** Runs the command without a sandbox, because the pod itself isolates it. */
async function runInPod({ command, env, shown }: StepCommand, onOutput: (bytes: Buffer) => void): Promise<void> {
  const [program = '', ...words] = command;
  const child = spawn(program, words, { cwd: '/', env, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', onOutput);
  child.stderr.on('data', onOutput);
  const [code] = (await once(child, 'close')) as [number | null];
  if (code === 0) return;
  throw new BuildFailed('Cloning', code, `${shown} ended with exit code ${code}. The log has its output.`);
}
