/**
 * One operator leads at a time, by a Lease: whoever renews it. In: the API server. Out: `acquire` resolves when we
 * lead, `onLost` is called when we no longer may. An operator that ended without letting go is followed LEASE_SECONDS
 * after its last renewal was seen, or at once by one on the same machine, which sees that its process is gone.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from './kube.js';
import { hasEnded } from './process-identity.js';

const LEASE_SECONDS = 12;
/** Unable to renew for so long, we stop: before another may lead. */
const GIVE_UP_MS = 9_000;
/** Every look and every renewal is a request, in an operator that has little else to ask for. */
const PERIOD_MS = 4_000;
const RETRY_MS = 1_000;
/** A server that hangs must not keep us from giving up in time. */
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
  /** The lease of another as we last saw it change, by our own clock: theirs may differ. */
  #seen: { version: string | undefined; until: number } = { version: undefined, until: 0 };
  #held: LeaseObject | undefined;
  #renewing: Promise<void> | undefined;

  constructor(options: LeaderElectionOptions) {
    this.#options = options;
    this.#path = `/apis/coordination.k8s.io/v1/namespaces/${options.namespace}/leases`;
  }

  /** Resolves to true when we lead, to false when closed before. */
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

  /** Lets go of the lease, so that another leads at once. */
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#renewing;
    if (!this.#held) return;
    const release = { ...this.#held, spec: { ...this.#held.spec, holderIdentity: '', leaseDurationSeconds: 1 } };
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
      this.#held = await this.#put({ ...lease, spec: this.#spec(lease.spec.leaseTransitions ?? 0) });
    } catch (error) {
      if (isConflict(error)) return false;
      if (!isNotFound(error)) throw error;
      this.#held = await create().catch(async (refused) => {
        // On a cluster the namespace is the installation's, and not ours to make.
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
      const held = this.#held as LeaseObject;
      const begun = performance.now();
      const next = { ...held, spec: { ...held.spec, renewTime: microTime() } };
      const outcome = await this.#put(next, Math.max(RETRY_MS, msLeft())).catch(async (error: Error) =>
        (await this.#isLost(error)) ? 'lost' : this.#failed(error),
      );
      if (typeof outcome === 'object') {
        this.#held = outcome;
        renewed = begun;
      } else if (outcome === 'lost' || msLeft() <= 0) {
        this.#held = undefined;
        this.#options.onLost();
        return;
      }
      pause = outcome === false ? RETRY_MS : PERIOD_MS;
    }
  }

  /** A conflict may be our own write whose answer was lost: then we hold it still, at a newer version. */
  async #isLost(error: Error): Promise<boolean> {
    if (!isConflict(error) && !isNotFound(error)) return false;
    const path = `${this.#path}/${this.#options.name}`;
    const signal = AbortSignal.timeout(REQUEST_TIMEOUT_MS);
    const lease = await this.#options.client
      .request<LeaseObject>({ method: 'GET', path, signal })
      .catch(() => undefined);
    if (lease?.spec.holderIdentity !== this.#options.identity) return lease !== undefined || isNotFound(error);
    this.#held = lease;
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

/** `metav1.MicroTime`. */
const microTime = () => new Date().toISOString().replace('Z', '000Z');
