/**
 * Metrics for Prometheus. Each operator has a registry of its own, so that several can run in one process, as tests do.
 */
import type { RequestObserver } from '@slipway/kubernetes';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import type { QueueObserver } from './work-queue.js';

export interface ControllerMetrics {
  /** Records the start of a reconcile. Call the returned function with the result at its end. */
  begin(): (result: string) => void;
  /** Counts an unexpected error of a step. */
  unexpected(step: string): void;
}

const SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export class Metrics {
  readonly registry = new Registry();
  readonly #reconciles: Counter<'controller' | 'result'>;
  readonly #unexpected: Counter<'controller' | 'step'>;
  readonly #durations: Histogram<'controller'>;
  readonly #active: Gauge<'controller'>;
  readonly #depth: Gauge<'controller'>;
  readonly #latency: Histogram<'controller'>;
  readonly #retries: Counter<'controller'>;
  readonly #watches: Counter<'resource' | 'reason'>;
  readonly #requests: Counter<'method' | 'resource' | 'status'>;
  readonly #sessions: Counter<'reason'>;
  readonly leading: Gauge;

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#reconciles = new Counter({
      name: 'slipway_reconcile_total',
      help: 'Reconciles by their result.',
      labelNames: ['controller', 'result'],
      registers,
    });
    this.#unexpected = new Counter({
      name: 'slipway_reconcile_unexpected_errors_total',
      help: 'Unexpected errors of a step of a reconcile. The log has each with its stack.',
      labelNames: ['controller', 'step'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'slipway_reconcile_duration_seconds',
      help: 'Duration of a reconcile.',
      labelNames: ['controller'],
      buckets: SECONDS,
      registers,
    });
    this.#active = new Gauge({
      name: 'slipway_reconcile_active_workers',
      help: 'Reconciles in progress.',
      labelNames: ['controller'],
      registers,
    });
    this.#depth = new Gauge({
      name: 'slipway_queue_depth',
      help: 'Objects that wait for a reconcile.',
      labelNames: ['controller'],
      registers,
    });
    this.#latency = new Histogram({
      name: 'slipway_queue_latency_seconds',
      help: 'Time that an object waits for a reconcile.',
      labelNames: ['controller'],
      buckets: SECONDS,
      registers,
    });
    this.#retries = new Counter({
      name: 'slipway_queue_retries_total',
      help: 'Reconciles that are retried after an expected failure.',
      labelNames: ['controller'],
      registers,
    });
    this.#watches = new Counter({
      name: 'slipway_watch_restarts_total',
      help: 'Restarted watches by reason.',
      labelNames: ['resource', 'reason'],
      registers,
    });
    this.#requests = new Counter({
      name: 'slipway_kubernetes_requests_total',
      help: 'Requests to the Kubernetes API; a watch is one.',
      labelNames: ['method', 'resource', 'status'],
      registers,
    });
    this.#sessions = new Counter({
      name: 'slipway_tenant_sessions_ended_total',
      help: 'Sessions of tenants that were ended because they harmed others on their Postgres server, by reason.',
      labelNames: ['reason'],
      registers,
    });
    this.leading = new Gauge({
      name: 'slipway_operator_leading',
      help: '1 while this operator has the lease.',
      registers,
    });
  }

  controller(controller: string): ControllerMetrics {
    return {
      begin: () => {
        this.#active.inc({ controller });
        const stop = this.#durations.startTimer({ controller });
        return (result) => {
          stop();
          this.#active.dec({ controller });
          this.#reconciles.inc({ controller, result });
        };
      },
      unexpected: (step) => this.#unexpected.inc({ controller, step }),
    };
  }

  queue(controller: string): QueueObserver {
    return {
      depth: (depth) => this.#depth.set({ controller }, depth),
      waited: (seconds) => this.#latency.observe({ controller }, seconds),
      retried: () => this.#retries.inc({ controller }),
    };
  }

  readonly request: RequestObserver = ({ method, resource, status }) => {
    this.#requests.inc({ method, resource, status: status === undefined ? 'none' : String(status) });
  };

  /** Returns a function that sets the number of machines of no project. */
  orphanedMachines(): (count: number) => void {
    const gauge = new Gauge({
      name: 'slipway_machines_orphaned',
      help: 'Machines at the provider with the name of this installation that belong to no project.',
      registers: [this.registry],
    });
    return (count) => gauge.set(count);
  }

  /** Counts projects by their state in the rollout of default images. Calls `counts` for each scrape. */
  rollout(counts: () => Record<string, number>): void {
    new Gauge({
      name: 'slipway_rollout_projects',
      help: 'Projects with own pods by their state in the rollout. A failed project halts it for those that wait.',
      labelNames: ['state'],
      registers: [this.registry],
      collect() {
        for (const [state, count] of Object.entries(counts())) this.set({ state }, count);
      },
    });
  }

  sessionEnded(reason: string): void {
    this.#sessions.inc({ reason });
  }

  watchRestarted(resource: string, reason: string): void {
    this.#watches.inc({ resource, reason });
  }
}
