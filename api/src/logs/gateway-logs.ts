/**
 * Reads lines about projects' services from the gateways. Each gateway stores lines of the requests that it served, so
 * on a cluster all of them are read. In: a service and a query. Out: the newest lines, oldest first.
 */
import type { RequestOptions } from 'node:http';
import { Inject, Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { StoredLog } from '@slipway/installation';
import { type JsonBound, LogThrottle, ONE_TURN, parseJson } from '@slipway/program';
import type { Logger } from 'pino';
import { plainGet } from '../http/plain-get.js';
import { Problem, retryLater } from '../http/problem.js';
import { LOG, SETTINGS } from '../settings/injected.js';
import type { ApiSettings, ProjectLogsSettings } from '../settings/settings.js';
import { type LogSelection, newestLinesOf } from './log-selection.js';
import type { ProjectLogLine } from './logs.schema.js';

const DEADLINE_MS = 5_000;
/** A journal has 128 KiB. */
const MOST_OF_LOG: JsonBound = { ...ONE_TURN, bytes: 1024 * 1024 };
/** Milliseconds until all lines of an instant were read: clocks of gateways differ, and are not read at once. */
const SETTLED_MS = 1_000;

@Injectable()
export class GatewayLogs implements OnApplicationShutdown {
  private readonly failures: LogThrottle;

  constructor(
    @Inject(SETTINGS) private readonly settings: ApiSettings,
    @Inject(LOG) private readonly log: Logger,
  ) {
    this.failures = new LogThrottle((leftOut) => log.warn({ leftOut }, 'more logs of gateways not read'));
  }

  onApplicationShutdown(): void {
    this.failures.close();
  }

  /** Milliseconds for which a reader of each new line waits until an earlier line can no longer appear. */
  get settledMs(): number {
    return this.settings.projectLogs && 'gateways' in this.settings.projectLogs ? SETTLED_MS : 0;
  }

  /** Returns the lines of all gateways that respond. Throws if none does. */
  async read(ref: string, service: StoredLog, query: LogSelection): Promise<ProjectLogLine[]> {
    const { projectLogs } = this.settings;
    if (!projectLogs) throw new Problem('unavailable', 'This installation stores no logs for owners.');
    const { level, since, limit } = query;
    const parameters = new URLSearchParams({ level, since: String(since), limit: String(limit) });
    const path = `/${encodeURIComponent(ref)}/${service}?${parameters}`;
    const gateways = await placesOf(projectLogs).catch((cause: unknown) => {
      throw unavailable(cause);
    });
    const answers = await Promise.allSettled(gateways.map((gateway) => linesOf({ ...gateway, path })));
    const lines = answers.flatMap((answer) => (answer.status === 'fulfilled' ? [answer.value] : []));
    const failed = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []));
    if (lines.length === 0) throw unavailable(failed[0] ?? new Error('there is no gateway'));
    if (failed.length > 0 && this.failures.take('')) this.log.warn({ err: failed[0] }, 'logs of a gateway not read');
    return newestLinesOf(lines.flat(), limit);
  }
}

const unavailable = (cause: unknown) =>
  retryLater('unavailable', 'The data plane does not return the log now. Try again.', 5, { cause });

/** Returns the gateways in an order that stays the same, as lines of one millisecond are in this order. */
async function placesOf(settings: ProjectLogsSettings): Promise<RequestOptions[]> {
  if ('socketPath' in settings) return [settings];
  const headers = { authorization: `Bearer ${settings.token()}` };
  const gateways = await settings.gateways();
  return gateways.sort((a, b) => (a.host < b.host ? -1 : 1)).map(({ host, port }) => ({ host, port, headers }));
}

/** A project without lines has none at a gateway. Throws if the gateway does not respond, or rejects the token. */
async function linesOf(options: RequestOptions): Promise<ProjectLogLine[]> {
  const { status, text } = await plainGet(options, { deadlineMs: DEADLINE_MS, bytes: MOST_OF_LOG.bytes });
  if (status === 404) return [];
  if (status !== 200) throw new Error(`the gateway responded with ${status} to the request for a log`);
  return parseJson(text, MOST_OF_LOG) as ProjectLogLine[];
}
