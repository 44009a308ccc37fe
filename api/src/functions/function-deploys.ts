/**
 * Requests a version of a function from the operator, and waits until it is served. In: an EdgeFunction. Out: the
 * function with its new status, or a Problem.
 */
import { Injectable } from '@nestjs/common';
import { callerGone } from '../http/caller-signal.js';
import { missing, Problem } from '../http/problem.js';
import { projectLimit } from '../projects/project-limit.js';
import { FunctionCache } from './function-cache.js';
import { digestOf, FunctionResources, type SeenFunction } from './function-resources.js';
import { refusalOf, WAITING } from './function-view.js';

/**
 * Maximum milliseconds that a request waits. A slower deploy continues, and the function's status shows how it ends.
 */
const PATIENCE_MS = 60_000;
const TRIES = 5;
const AT_ONCE_PER_PROJECT = 16;
const AT_ONCE = 64;

@Injectable()
export class FunctionDeploys {
  private readonly limit = projectLimit('deploys and rollbacks', AT_ONCE_PER_PROJECT, AT_ONCE);

  constructor(
    private readonly resources: FunctionResources,
    private readonly cache: FunctionCache,
  ) {}

  /** Deploys the present code of the function. */
  deploy(ref: string, object: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    return this.limit.run(ref, () => this.deployAsItIs(ref, object, signal));
  }

  rollback(ref: string, object: SeenFunction, version: number, signal: AbortSignal): Promise<SeenFunction> {
    return this.limit.run(ref, () => this.rollBackTo(object, version, signal));
  }

  private async deployAsItIs(ref: string, found: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    let object = found;
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      const { generation, resourceVersion } = object.metadata;
      // The generation after this patch. Its code has this generation or an earlier one, as the resourceVersion
      // excludes a change in between.
      const spec = { deployedGeneration: generation + 1 };
      const patched = await this.resources.patch(object, spec, resourceVersion);
      object = patched ? await this.whenSeen(patched, signal) : await this.read(ref, object);
      if (!patched) continue;
      if (isAsPatched(object, patched)) return unlessRefused(object);
      // If the function was changed again before the operator saw the patch, this code may never have become a version.
      if (await this.serves(object, patched.spec.code)) return object;
      if (object.spec.deployedGeneration !== spec.deployedGeneration) break;
    }
    throw new Problem('conflict', 'Other requests change the function at the same time. Try again.');
  }

  private async rollBackTo(object: SeenFunction, version: number, signal: AbortSignal): Promise<SeenFunction> {
    const versions = await this.resources.versions(object);
    if (!versions.some((kept) => kept.version === version)) throw missing('version of this function');
    const patched = await this.resources.patch(object, { deployedGeneration: version });
    if (!patched) throw missing('function');
    const seen = await this.whenSeen(patched, signal);
    if (seen.status?.deployedVersion === version) return unlessRefused(seen);
    if (seen.spec.deployedGeneration !== version) {
      throw new Problem('conflict', 'Other requests deploy the function at the same time. Try again.');
    }
    if (isWithoutVersion(seen)) {
      // The version was pruned after the look-up: restore the former request.
      const before = { deployedGeneration: object.spec.deployedGeneration ?? null };
      await this.resources.patch(seen, before, seen.metadata.resourceVersion);
      throw missing('version of this function');
    }
    return unlessRefused(seen);
  }

  private async serves(object: SeenFunction, code: string): Promise<boolean> {
    const versions = await this.resources.versions(object);
    return versions.find(({ version }) => version === object.status?.deployedVersion)?.digest === digestOf(code);
  }

  /** Returns the resource once the operator has processed this change or a later one. */
  private async whenSeen(patched: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    const isSeen = ({ status }: SeenFunction) => (status?.observedGeneration ?? 0) >= patched.metadata.generation;
    const isDone = (object: SeenFunction) => isSeen(object) && object.status?.phase !== 'pending';
    const ends = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
    const object = await this.cache.until(patched, isDone, ends);
    if (signal.aborted) throw callerGone();
    if (!object) throw missing('function');
    return isSeen(object) ? object : unseen(object);
  }

  private async read(ref: string, { metadata: { name, uid } }: SeenFunction): Promise<SeenFunction> {
    const object = await this.resources.get(ref, name);
    if (object?.metadata.uid !== uid) throw missing('function');
    return object;
  }
}

/** True if the status belongs to this patch, not to a later change. */
const isAsPatched = ({ status }: SeenFunction, patched: SeenFunction) =>
  status?.phase === 'pending' || status?.observedGeneration === patched.metadata.generation;

/** The operator serves an older version if the requested one was deleted, or none if there is no older one. */
const isWithoutVersion = ({ status }: SeenFunction) =>
  status?.phase === 'deployed' ||
  status?.conditions?.some(({ type, reason }) => type === 'Ready' && reason === 'NoSuchVersion');

/** A status from before the change is replaced by `pending`. */
const unseen = (object: SeenFunction): SeenFunction => ({
  ...object,
  status: { conditions: [], ...object.status, phase: 'pending', message: WAITING },
});

function unlessRefused(object: SeenFunction): SeenFunction {
  if (object.status?.phase === 'error') throw refusalOf(object);
  return object;
}
