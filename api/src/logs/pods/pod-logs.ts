/**
 * Reads what containers of pods have written, from the Kubernetes API. In: pods by label. Out: the newest lines of each
 * pod, oldest first. The Kubernetes API reads a log from its end, but limits its bytes from the start of the selected
 * lines, so the limit in bytes is kept here.
 */
import { Injectable } from '@nestjs/common';
import { KubeError, type KubeObject } from '@slipway/kubernetes';
import { ConcurrencyLimit } from '@slipway/program';
import { retryLater } from '../../http/problem.js';
import { Kubernetes } from '../../kubernetes/client.js';
import { logUnavailable, PartialReads } from '../partial-reads.js';

export interface SelectedPods {
  namespace: string;
  labels: Readonly<Record<string, string>>;
  container: string;
  /** Newest lines of each pod that are read. */
  lines: number;
}

/** Pods of one service of a project: replicas, and those of the rollout before. */
const MOST_PODS = 10;
/** Bytes of one pod's log that are kept. */
export const MOST_OF_POD = 2 * 1024 * 1024;
const DEADLINE_MS = 5_000;
/** Reads at once. Each may have the bytes of all its pods in memory. */
const AT_ONCE = { most: 4, ofOne: 2, waiting: 64, waitingOfOne: 8, firstMayWait: true };
/** Statuses of the Kubernetes API for a container before its start, and for a deleted pod. */
const WITHOUT_LOG: readonly number[] = [400, 404];

@Injectable()
export class PodLogs {
  private readonly limit = new ConcurrencyLimit(AT_ONCE, () =>
    retryLater('unavailable', 'Too many logs of pods are read at once. Try again.', 1),
  );

  constructor(
    private readonly kubernetes: Kubernetes,
    private readonly partly: PartialReads,
  ) {}

  /**
   * Returns the lines of all pods whose log can be read. Throws if there are pods, but no log can be read. `since`:
   * milliseconds since 1970. `key`: the project.
   */
  read(key: string, pods: SelectedPods, since: number): Promise<string[]> {
    return this.limit.run(key, () => this.readAll(pods, since));
  }

  private async readAll(pods: SelectedPods, since: number): Promise<string[]> {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const names = await this.namesOf(pods, signal).catch((cause: unknown) => {
      throw logUnavailable(cause);
    });
    const lines = await this.partly.all(names.map((name) => this.linesOf(name, pods, since, signal)));
    return lines.flat();
  }

  private async namesOf({ namespace, labels }: SelectedPods, signal: AbortSignal): Promise<string[]> {
    const labelSelector = Object.entries(labels)
      .map(([name, value]) => `${name}=${value}`)
      .join(',');
    const { items } = await this.kubernetes.client.request<{ items: KubeObject[] }>({
      method: 'GET',
      path: podsIn(namespace),
      query: { labelSelector, limit: String(MOST_PODS) },
      signal,
    });
    return items.map(({ metadata }) => metadata.name).sort();
  }

  private async linesOf(pod: string, pods: SelectedPods, since: number, signal: AbortSignal): Promise<string[]> {
    const query = {
      container: pods.container,
      tailLines: String(pods.lines),
      ...(since > 0 && { sinceTime: new Date(since).toISOString() }),
    };
    const request = { method: 'GET' as const, path: `${podsIn(pods.namespace)}/${pod}/log`, query, signal };
    try {
      return await newestLines(this.kubernetes.client.bytes(request, DEADLINE_MS), MOST_OF_POD);
    } catch (error) {
      if (error instanceof KubeError && WITHOUT_LOG.includes(error.status)) return [];
      throw error;
    }
  }
}

const podsIn = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`;

/** Returns the whole lines in the last `most` bytes. */
export async function newestLines(pieces: AsyncIterable<Buffer>, most: number): Promise<string[]> {
  const kept: Buffer[] = [];
  let bytes = 0;
  let isCut = false;
  for await (const piece of pieces) {
    kept.push(piece);
    bytes += piece.length;
    while (kept.length > 1 && bytes - (kept[0] as Buffer).length >= most) {
      bytes -= (kept.shift() as Buffer).length;
      isCut = true;
    }
  }
  const lines = Buffer.concat(kept).toString('utf8').split('\n');
  return (isCut ? lines.slice(1) : lines).filter((line) => line !== '');
}
