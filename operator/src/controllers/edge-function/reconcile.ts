/**
 * One reconcile of an EdgeFunction: keep its code as a version, have the engine serve the one that is asked for, say so
 * in the status. In: a key. Out: when to look again. Level-based: nothing is kept between two.
 */
import {
  availableServices,
  type EdgeFunction,
  FINALIZER,
  type Project,
  REASON_UNEXPECTED_ERROR,
  whyUnavailable,
} from '@slipway/crds';
import type { Outcome } from '../../runtime/controller.js';
import { isTransient, unexpectedMessage } from '../../runtime/failures.js';
import { addFinalizer, hasFinalizer, removeFinalizer } from '../../runtime/finalizers.js';
import { refusedOutcome } from '../../runtime/refusal.js';
import { whyTooMuch } from './budget.js';
import { addressKey, BY_ADDRESS, type FunctionReconcilerDeps, functionPath, refOf } from './resources.js';
import { describeProblems, type Finding, type Found, statusOf } from './status.js';
import { chosen, ensureVersions, pruneVersions, type Version } from './versions.js';

/** Interval at which a healthy function is sent to the engine again, in case the engine lost it. */
const RESYNC_MS = 120_000;

export async function reconcileFunction(
  deps: FunctionReconcilerDeps,
  namespace: string,
  name: string,
): Promise<Outcome> {
  const object = deps.functions.get(name, namespace);
  if (!object) return { kind: 'done' };
  try {
    return await (object.metadata.deletionTimestamp ? remove(deps, object) : provide(deps, object));
  } catch (error) {
    if (isTransient(error)) return { kind: 'retry', why: (error as Error).message };
    const step = object.metadata.deletionTimestamp ? 'removal' : 'deployment';
    await reportUnexpected(deps, object, step).catch(() => undefined);
    return { kind: 'unexpected', failures: [{ step, error }] };
  }
}

/** Callers get what they got before, as far as anybody knows. */
async function reportUnexpected(deps: FunctionReconcilerDeps, seen: EdgeFunction, step: string): Promise<void> {
  const { name, namespace } = seen.metadata;
  // The reconcile may have written it since.
  const object = deps.functions.get(name, namespace) ?? seen;
  const { url = '', newestVersion } = object.status ?? {};
  const finding: Finding = { state: 'failed', reason: REASON_UNEXPECTED_ERROR, message: unexpectedMessage(step) };
  const found: Found = { finding, url, ...(newestVersion === undefined ? {} : { newestVersion }) };
  await deps.statuses.write(object, statusOf(object, found, deps.now()));
}

async function provide(deps: FunctionReconcilerDeps, seen: EdgeFunction): Promise<Outcome> {
  const ref = refOf(seen.metadata.namespace);
  const url = ref === undefined ? '' : `${deps.projectUrl(ref)}/functions/v1/${seen.spec.name}`;
  const refusal = refuse(deps, seen, ref);
  if (ref === undefined || refusal) return conclude(deps, seen, { finding: refusal as Finding, url });
  await withFinalizer(deps, seen);
  // The cache has no code.
  const object = await deps.client.get<EdgeFunction>(functionPath(seen));
  if (object.metadata.uid !== seen.metadata.uid) return { kind: 'retry', why: 'the function was made anew' };
  const versions = await ensureVersions(deps, object, (bytes) => whyTooMuch(deps, object, bytes)).catch(refused);
  if ('state' in versions) return conclude(deps, object, { finding: versions, url });
  const finding = await deploy(deps, object, ref, versions);
  // Also where nothing is deployed: what is written again and again must not fill the namespace.
  const served = finding.state === 'deployed' ? finding.version : object.status?.deployedVersion;
  await pruneVersions(deps, object, versions, served);
  return conclude(deps, object, { finding, url, newestVersion: versions.at(-1)?.version as number });
}

/**
 * A full quota, or code of more bytes than a ConfigMap takes: told in the status, as a log tells nobody. What was
 * served stays.
 */
const refused = (error: unknown) => refusedOutcome(error, 'the version can not be kept');

function refuse(deps: FunctionReconcilerDeps, object: EdgeFunction, ref: string | undefined): Finding | undefined {
  const { namespace } = object.metadata;
  if (ref === undefined || !isThere(deps.projects.get(ref))) {
    const message = `the namespace ${namespace} is no project's: create the EdgeFunction in p-<ref> of a Project`;
    return { state: 'failed', reason: 'NoProject', message };
  }
  const elder = deps.functions.find(BY_ADDRESS, addressKey(object)).find((other) => isElder(other, object));
  if (!elder) return undefined;
  const message = `${elder.metadata.name} has the name ${object.spec.name} already: choose another spec.name`;
  return { state: 'failed', reason: 'NameConflict', message };
}

const isThere = (project: Project | undefined) => project !== undefined && !project.metadata.deletionTimestamp;

/** Made within one second, their names decide, so that exactly one of two yields. */
function isElder(a: EdgeFunction, b: EdgeFunction): boolean {
  if (a.metadata.uid === b.metadata.uid || a.metadata.deletionTimestamp) return false;
  const [made, than] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return made === than ? a.metadata.name < b.metadata.name : made < than;
}

async function withFinalizer(
  { client, functions }: FunctionReconcilerDeps,
  object: EdgeFunction,
): Promise<EdgeFunction> {
  if (hasFinalizer(object, FINALIZER)) return object;
  const written = await addFinalizer(client, functionPath(object), object, FINALIZER);
  functions.learn(written);
  return written;
}

async function deploy(
  deps: FunctionReconcilerDeps,
  object: EdgeFunction,
  ref: string,
  versions: Version[],
): Promise<Finding> {
  const { name, verifyJwt = true, deployedGeneration } = object.spec;
  const closed = whyClosed(deps, ref);
  if (closed !== undefined || deployedGeneration === 0) {
    await deps.engine.removeFunction(ref, name);
    return closed === undefined ? { state: 'stored' } : { state: 'closed', message: closed };
  }
  const version = chosen(versions, deployedGeneration);
  if (!version) {
    const message = `there is no version ${deployedGeneration} any more: set spec.deployedGeneration to one of those that are kept`;
    return { state: 'failed', reason: 'NoSuchVersion', message };
  }
  const outcome = await deps.engine.ensureFunction({ ref, name, verifyJwt, ...version });
  if (outcome.state === 'ready') return { state: 'deployed', version: version.version };
  if (outcome.state === 'busy') return { state: outcome.lost ? 'lost' : 'waiting', message: outcome.message };
  const { problems } = outcome;
  return { state: 'failed', reason: 'InvalidCode', message: describeProblems(problems), problems };
}

/** By the availability matrix; its versions are kept for an installation that opens functions later. */
function whyClosed({ projects, openedServices }: FunctionReconcilerDeps, ref: string): string | undefined {
  const { type = 'shared', plan = 'free' } = projects.get(ref)?.spec ?? {};
  if (availableServices(type, plan, openedServices).includes('functions')) return undefined;
  const { message, hint } = whyUnavailable('functions', type);
  return [message, hint].filter(Boolean).join('. ');
}

async function conclude(deps: FunctionReconcilerDeps, object: EdgeFunction, found: Found): Promise<Outcome> {
  const { finding } = found;
  await deps.statuses.write(object, statusOf(object, found, deps.now()));
  if (finding.state === 'waiting' || finding.state === 'lost') return { kind: 'retry', why: finding.message };
  return { kind: 'again', afterMs: RESYNC_MS * (0.75 + Math.random() / 2) };
}

async function remove(deps: FunctionReconcilerDeps, object: EdgeFunction): Promise<Outcome> {
  if (!hasFinalizer(object, FINALIZER)) return { kind: 'done' };
  const ref = refOf(object.metadata.namespace);
  const heir = deps.functions.find(BY_ADDRESS, addressKey(object)).some(({ metadata }) => !metadata.deletionTimestamp);
  // One that waited for the name may have it from now on, and its reconcile puts its own code in place.
  if (ref !== undefined && !heir) await deps.engine.removeFunction(ref, object.spec.name);
  const path = functionPath(object);
  deps.functions.learn(await removeFinalizer(deps.client, path, object, FINALIZER));
  return { kind: 'done' };
}
