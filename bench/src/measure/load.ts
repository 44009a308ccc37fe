/**
 * Starts and drives the closed-loop load generator. It is a process of its own so that it shares no event loop with a
 * server.
 */
import { Generator } from './generator.js';
import type { RequestTemplate } from './request-template.js';

export interface LoadJob {
  /** URL of the project: `http://127.0.0.1:4000/p/<ref>`. */
  baseUrl: string;
  scenario:
    | { kind: 'template'; template: RequestTemplate }
    | { kind: 'token-chain'; apikey: string; refreshTokens: string[] };
  /** Any other status is a failure. */
  expectedStatuses: number[];
}

export interface LoadRun {
  connections: number;
  seconds: number;
}

/** The result of one run. Latencies in milliseconds; pgbench reports no percentiles. */
export interface Sample {
  requests: number;
  perSecond: number;
  p50?: number;
  p95?: number;
  p99?: number;
  generatorCpuSeconds?: number;
  failures: number;
  firstFailure: string;
}

export class LoadGenerator extends Generator<LoadJob> {
  constructor(job: LoadJob) {
    super(new URL('./load-process.js', import.meta.url), job);
  }
}
