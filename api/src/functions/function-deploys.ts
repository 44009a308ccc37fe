/**
 * Asks the operator for a version, and waits until callers get it. In: an EdgeFunction. Out: what became of it, or the
 * problem.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { callerGone } from '../http/caller-signal.js';
import { missing, Problem } from '../http/problem.js';
import { ConcurrencyLimit } from '../projects/concurrency-limit.js';
import { digestOf, FunctionResources, type SeenFunction } from './function-resources.js';
import { refusalOf, WAITING } from './function-view.js';

/** A deploy that takes longer goes on, and its status tells. */
const PATIENCE_MS = 60_000;
/** Each look reads the whole code: the longer it takes, the longer the pause between two. */
const LOOK = { firstMs: 50, factor: 1.25, maxMs: 1000 };
const TRIES = 5;
const AT_ONCE_PER_PROJECT = 16;
const AT_ONCE = 64;

@Injectable()
export class FunctionDeploys {
  private readonly limit = new ConcurrencyLimit('deploys and rollbacks', AT_ONCE_PER_PROJECT, AT_ONCE);

  constructor(private readonly resources: FunctionResources) {}

  /** Callers get the code as it is now. */
  deploy(ref: string, object: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    return this.limit.run(ref, () => this.deployAsItIs(ref, object, signal));
  }

  rollback(ref: string, object: SeenFunction, version: number, signal: AbortSignal): Promise<SeenFunction> {
    return this.limit.run(ref, () => this.rollBackTo(ref, object, version, signal));
  }

  private async deployAsItIs(ref: string, found: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    let object = found;
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      const { generation, resourceVersion } = object.metadata;
      // The generation that this very change makes: the code is of it or of an earlier one, and no other change comes
      // between.
      const spec = { deployedGeneration: generation + 1 };
      const patched = await this.resources.patch(object, spec, resourceVersion);
      object = patched ? await this.whenSeen(ref, patched, signal) : await this.read(ref, object);
      if (!patched) continue;
      if (isAsPatched(object, patched)) return unlessRefused(object);
      // Changed again before the operator looked, the code may never have become a version of the generation that was
      // asked for.
      if (await this.serves(object, patched.spec.code)) return object;
      if (object.spec.deployedGeneration !== spec.deployedGeneration) break;
    }
    throw new Problem('conflict', 'The function is changed by others at the same time. Try again.');
  }

  private async rollBackTo(
    ref: string,
    object: SeenFunction,
    version: number,
    signal: AbortSignal,
  ): Promise<SeenFunction> {
    const versions = await this.resources.versions(object);
    if (!versions.some((kept) => kept.version === version)) throw missing('version of this function');
    const patched = await this.resources.patch(object, { deployedGeneration: version });
    if (!patched) throw missing('function');
    const seen = await this.whenSeen(ref, patched, signal);
    if (seen.status?.deployedVersion === version) return unlessRefused(seen);
    if (seen.spec.deployedGeneration !== version) {
      throw new Problem('conflict', 'The function is deployed by others at the same time. Try again.');
    }
    if (isWithoutVersion(seen)) {
      // Pruned since it was looked for: callers get again what they got before.
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
  private async whenSeen(ref: string, patched: SeenFunction, signal: AbortSignal): Promise<SeenFunction> {
    const deadline = performance.now() + PATIENCE_MS;
    for (let wait = LOOK.firstMs; ; wait = Math.min(wait * LOOK.factor, LOOK.maxMs)) {
      const object = await this.read(ref, patched);
      const { status } = object;
      const isSeen = (status?.observedGeneration ?? 0) >= patched.metadata.generation;
      if (isSeen && status?.phase !== 'pending') return object;
      if (performance.now() > deadline) return isSeen ? object : unseen(object);
      await pause(wait, undefined, { signal }).catch(() => {
        throw callerGone();
      });
    }
  }

  private async read(ref: string, { metadata: { name, uid } }: SeenFunction): Promise<SeenFunction> {
    const object = await this.resources.get(ref, name);
    if (object?.metadata.uid !== uid) throw missing('function');
    return object;
  }
}

/** Whether the status is of the very change, and of none that came after it. */
const isAsPatched = ({ status }: SeenFunction, patched: SeenFunction) =>
  status?.phase === 'pending' || status?.observedGeneration === patched.metadata.generation;

/**
 * The operator serves an older version where the one that is asked for is no more, or none where there is no older one.
 */
const isWithoutVersion = ({ status }: SeenFunction) =>
  status?.phase === 'deployed' ||
  status?.conditions?.some(({ type, reason }) => type === 'Ready' && reason === 'NoSuchVersion');

/** The status of what was before the change says nothing about it. */
const unseen = (object: SeenFunction): SeenFunction => ({
  ...object,
  status: { conditions: [], ...object.status, phase: 'pending', message: WAITING },
});

function unlessRefused(object: SeenFunction): SeenFunction {
  if (object.status?.phase === 'error') throw refusalOf(object);
  return object;
}
