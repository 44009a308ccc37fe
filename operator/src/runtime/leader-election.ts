/**
 * Leader election: the operator that renews the Lease leads. In: the API server. Out: `acquire` resolves when this
 * operator leads, and `onLost` is called when it may no longer lead.
 *
 * If an operator ended without releasing the Lease, another one takes over LEASE_SECONDS after it saw the last renewal.
 * A candidate on the same machine takes over at once, because it can see that the process has ended.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { hasEnded } from './process-identity.js';

const LEASE_SECONDS = 12;
/** Milliseconds without a successful renewal after which the leader stops: before another operator may lead. */
const GIVE_UP_MS = 9_000;
/** Milliseconds between two checks or renewals. Each is a request, and an idle operator sends few others. */
const PERIOD_MS = 4_000;
const RETRY_MS = 1_000;
/** Timeout of a request in milliseconds: a server that hangs must not delay the end of this operator's leadership. */
const REQUEST_TIMEOUT_MS = 3_000;

export interface LeaderElectionOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  identity: string;
  onLost(): void;
  log: Logger;
}

interface LeaseObject extends KubeObject {
  spec: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export class LeaderElection {
  readonly #options: LeaderElectionOptions;
  readonly #stop = new AbortController();
  readonly #path: string;
  /**
   * The version of another operator's lease when it last changed, and the time when it expires by our clock. Clocks may
   * differ.
   */
  #seen: { version: string | undefined; until: number } = { version: undefined, until: 0 };
  #lease: LeaseObject | undefined;
  #renewing: Promise<void> | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${options.namespace}/leases`;
  }

  /** Resolves to true when this operator leads, to false if it was closed before. */
  async acquire(): Promise<boolean> {
    while (!this.#stop.signal.aborted) {
      if (await this.#tryAcquire().catch((error: Error) => this.#failed(error))) {
        this.#renewing = this.#renew();
        return true;
      }
      await this.#pause(Math.min(PERIOD_MS, this.#msUntilFree()));
    }
    return false;
  }

  /** Releases the Lease, so that another operator leads at once. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#renewing;
    if (!this.#lease) return;
    const release = { ...this.#lease, spec: { ...this.#lease.spec, holderIdentity: '', leaseDurationSeconds: 1 } };
    await this.#put(release).catch((error: Error) => this.#failed(error));
  }

  async #tryAcquire(): Promise<boolean> {
    const { client, name } = this.#options;
    const create = () =>
      client.create<LeaseObject>(this.#path, {
        apiVersion: 'coordination.k8s.io/v1',
        kind: 'Lease',
        metadata: { name },
        spec: this.#spec(-1),
      });
    try {
      const lease = await client.get<LeaseObject>(`${this.#path}/${name}`);
      if (!this.#isFree(lease)) return false;
      this.#lease = await this.#put({ ...lease, spec: this.#spec(lease.spec.leaseTransitions ?? 0) });
    } catch (error) {
      if (isConflict(error)) return false;
      if (!isNotFound(error)) throw error;
      this.#lease = await create().catch(async (refused) => {
        // On a cluster the installation makes the namespace, not the operator.
        if (!isNotFound(refused)) throw refused;
        await this.#ensureNamespace();
        return create();
      });
    }
    return true;
  }

  #isFree(lease: LeaseObject): boolean {
    const holder = lease.spec.holderIdentity;
    if (!holder || holder === this.#options.identity || hasEnded(holder)) return true;
    const version = lease.metadata.resourceVersion;
    const lastsMs = (lease.spec.leaseDurationSeconds ?? LEASE_SECONDS) * 1000;
    if (version !== this.#seen.version) this.#seen = { version, until: performance.now() + lastsMs };
    return performance.now() > this.#seen.until;
  }

  #msUntilFree(): number {
    return Math.max(RETRY_MS, this.#seen.until - performance.now());
  }

  async #renew(): Promise<void> {
    let renewed = performance.now();
    const msLeft = () => renewed + GIVE_UP_MS - performance.now();
    for (let pause = PERIOD_MS; !this.#stop.signal.aborted; ) {
      await this.#pause(Math.max(0, Math.min(pause, msLeft())));
      if (this.#stop.signal.aborted) return;
      const lease = this.#lease as LeaseObject;
      const begun = performance.now();
      const next = { ...lease, spec: { ...lease.spec, renewTime: microTime() } };
      const outcome = await this.#put(next, Math.max(RETRY_MS, msLeft())).catch(async (error: Error) =>
        (await this.#isLost(error)) ? 'lost' : this.#failed(error),
      );
      if (typeof outcome === 'object') {
        this.#lease = outcome;
        renewed = begun;
      } else if (outcome === 'lost' || msLeft() <= 0) {
        this.#lease = undefined;
        this.#options.onLost();
        return;
      }
      pause = outcome === false ? RETRY_MS : PERIOD_MS;
    }
  }

  /**
   * Whether the Lease is lost. A conflict may be our own write whose response was lost. Then this operator still leads,
   * at a newer version.
   */
  async #isLost(error: Error): Promise<boolean> {
    if (!isConflict(error) && !isNotFound(error)) return false;
    const path = `${this.#path}/${this.#options.name}`;
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const lease = await this.#options.client
      .request<LeaseObject>({ method: 'GET', path, signal })
      .catch(() => undefined);
    if (lease?.spec.holderIdentity !== this.#options.identity) return lease !== undefined || isNotFound(error);
    this.#lease = lease;
    return false;
  }

  #put(lease: LeaseObject, ms = REQUEST_TIMEOUT_MS): Promise<LeaseObject> {
    const path = `${this.#path}/${this.#options.name}`;
    const signal = AbortSignal.timeout(Math.ceil(Math.min(ms, REQUEST_TIMEOUT_MS)));
    return this.#options.client.request<LeaseObject>({ method: 'PUT', path, body: lease, signal });
  }

  #spec(transitions: number): LeaseObject['spec'] {
    return {
      holderIdentity: this.#options.identity,
      leaseDurationSeconds: LEASE_SECONDS,
      acquireTime: microTime(),
      renewTime: microTime(),
      leaseTransitions: transitions + 1,
    };
  }

  async #ensureNamespace(): Promise<void> {
    const { client, namespace } = this.#options;
    const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } };
    await client.create('/api/v1/namespaces', body).catch((error) => {
      if (!isConflict(error)) throw error;
    });
  }

  #failed(error: Error): false {
    this.#options.log.warn({ why: error.message }, 'lease not written');
    return false;
  }

  #pause(ms: number): Promise<void> {
    return sleep(ms * (0.75 + Math.random() / 4), undefined, { signal: this.#stop.signal }).catch(() => {});
  }
}

/** Returns the time as `metav1.MicroTime`. */
const microTime = () => new Date().toISOString().replace('Z', '000Z');
