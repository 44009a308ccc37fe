/**
 * One reconcile of an EdgeFunction: store its code as a version, make the engine serve the requested version, and write
 * the status. In: a key. Out: when to reconcile again. Level-based: no state is kept between two reconciles.
 */
import { DEFAULT_TYPE, type EdgeFunction, FINALIZER, type Project } from '@slipway/crds';
import { availableServices, REASON_UNEXPECTED_ERROR, refOfNamespace, whyUnavailable } from '@slipway/installation';
import type { Outcome } from '../../runtime/controller.js';
import { isTransient, unexpectedMessage } from '../../runtime/failures.js';
import { addFinalizer, hasFinalizer, removeFinalizer } from '../../runtime/finalizers.js';
import { refusedOutcome } from '../../runtime/refusal.js';
import { whyTooMuch } from './budget.js';
import { addressKey, BY_ADDRESS, type FunctionReconcilerDeps, functionPath } from './resources.js';
import { describeProblems, type Finding, type Found, statusOf } from './status.js';
import { chosen, ensureVersions, pruneVersions, type Version } from './versions.js';

/** Milliseconds after which a healthy function is sent to the engine again, in case the engine lost it. */
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

/** Reports an unexpected error. The served version does not change, as far as is known. */
async function reportUnexpected(deps: FunctionReconcilerDeps, seen: EdgeFunction, step: string): Promise<void> {
  const { name, namespace } = seen.metadata;
  // The object is read from the cache again, because the reconcile may have written it.
  const object = deps.functions.get(name, namespace) ?? seen;
  const { url = '', newestVersion } = object.status ?? {};
  const finding: Finding = { state: 'failed', reason: REASON_UNEXPECTED_ERROR, message: unexpectedMessage(step) };
  const found: Found = { finding, url, ...(newestVersion === undefined ? {} : { newestVersion }) };
  await deps.statuses.write(object, statusOf(object, found, deps.now()));
}

async function provide(deps: FunctionReconcilerDeps, seen: EdgeFunction): Promise<Outcome> {
  const ref = refOfNamespace(seen.metadata.namespace);
  const url = ref === undefined ? '' : `${deps.projectUrl(ref)}/functions/v1/${seen.spec.name}`;
  const refusal = refuse(deps, seen, ref);
  if (ref === undefined || refusal) return conclude(deps, seen, { finding: refusal as Finding, url });
  await withFinalizer(deps, seen);
  // The object is read from the server, because the cache has no code.
  const object = await deps.client.get<EdgeFunction>(functionPath(seen));
  if (object.metadata.uid !== seen.metadata.uid) return { kind: 'retry', why: 'the function was made anew' };
  const versions = await ensureVersions(deps, object, (bytes) => whyTooMuch(deps, object, bytes)).catch(refused);
  if ('state' in versions) return conclude(deps, object, { finding: versions, url });
  const finding = await deploy(deps, object, ref, versions);
  // Old versions are deleted even if the deployment failed: repeated writes of code must not fill the namespace.
  const served = finding.state === 'deployed' ? finding.version : object.status?.deployedVersion;
  await pruneVersions(deps, object, versions, served);
  return conclude(deps, object, { finding, url, newestVersion: versions.at(-1)?.version as number });
}

/**
 * Returns the outcome of code that can't be stored, because of a full quota or the size of a ConfigMap. It is in the
 * status, as owners don't see the log. The served version stays.
 */
const refused = (error: unknown) => refusedOutcome(error, 'the version can not be stored');

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

/** True if `a` is older. Created within one second, their names decide, so that exactly one of two yields. */
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
    const message =
      `version ${deployedGeneration} no longer exists: ` +
      'set spec.deployedGeneration to the generation of a stored version';
    return { state: 'failed', reason: 'NoSuchVersion', message };
  }
  const outcome = await deps.engine.ensureFunction({ ref, name, verifyJwt, ...version });
  if (outcome.state === 'ready') return { state: 'deployed', version: version.version };
  if (outcome.state === 'busy') return { state: outcome.lost ? 'lost' : 'waiting', message: outcome.message };
  const { problems } = outcome;
  return { state: 'failed', reason: 'InvalidCode', message: describeProblems(problems), problems };
}

/**
 * Returns why functions are not available to the project, by the availability matrix. Its versions stay, for an
 * installation that enables functions later.
 */
function whyClosed({ projects, openedServices }: FunctionReconcilerDeps, ref: string): string | undefined {
  const { type = DEFAULT_TYPE, plan = 'free' } = projects.get(ref)?.spec ?? {};
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
  const ref = refOfNamespace(object.metadata.namespace);
  const heir = deps.functions.find(BY_ADDRESS, addressKey(object)).some(({ metadata }) => !metadata.deletionTimestamp);
  // Another EdgeFunction that waited for the name gets it now, and its reconcile replaces the code.
  if (ref !== undefined && !heir) await deps.engine.removeFunction(ref, object.spec.name);
  const path = functionPath(object);
  deps.functions.learn(await removeFinalizer(deps.client, path, object, FINALIZER));
  return { kind: 'done' };
}
