/**
 * Counts and measures requests for Prometheus, by service and status class, so that the number of series does not grow
 * with the number of projects. In: responses. Out: /metrics, at an address of its own.
 */

import type { ServerResponse } from 'node:http';
import { type ProjectService } from '@slipway/crds';
import { serveMetrics } from '@slipway/program';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/**
 * Labels beside the services. `platform`: a request outside of projects' addresses. `none`: an unknown service.
 * `misdirected`: a foreign host name.
 */
export type Served = ProjectService | 'site' | 'app' | 'platform' | 'none' | 'misdirected';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export class GatewayMetrics {
  readonly registry = new Registry();
  readonly #requests: Counter<'service' | 'status'>;
  readonly #durations: Histogram<'service'>;
  readonly #sockets: Gauge;

  constructor() {
    const registers = [this.registry];
    collectDefaultMetrics({ register: this.registry });
    this.#requests = new Counter({
      name: 'slipway_gateway_requests_total',
      help: 'Requests by service and class of status; aborted: the caller went away before the answer began.',
      labelNames: ['service', 'status'],
      registers,
    });
    this.#durations = new Histogram({
      name: 'slipway_gateway_request_duration_seconds',
      help: 'Seconds from the headers of a request to the end of its response.',
      labelNames: ['service'],
      buckets: SECONDS,
      registers,
    });
    this.#sockets = new Gauge({
      name: 'slipway_gateway_sockets',
      help: 'Connections that speak another protocol than HTTP now.',
      registers,
    });
  }

  watch(outgoing: ServerResponse, service: Served): void {
    const stop = this.#durations.startTimer({ service });
    outgoing.once('close', () => {
      stop();
      const status = outgoing.headersSent ? `${Math.floor(outgoing.statusCode / 100)}xx` : 'aborted';
      this.#requests.inc({ service, status });
    });
  }

  socketOpened(socket: { once(event: 'close', listener: () => void): unknown }): void {
    this.#sockets.inc();
    socket.once('close', () => this.#sockets.dec());
  }
}

/** Starts the server. `at` is host:port; undefined: nothing is counted. */
export async function startMetrics(at: string | undefined) {
  if (at === undefined) return { metrics: undefined, stopMetrics: () => undefined };
  const metrics = new GatewayMetrics();
  return { metrics, stopMetrics: await serveMetrics(metrics.registry, at) };
}
