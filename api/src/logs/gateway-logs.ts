/**
 * Reads lines about projects' services from the gateways. Each gateway stores lines of the requests that it served, so
 * on a cluster all of them are read. In: a service and a query. Out: the newest lines, oldest first.
 */
import type { RequestOptions } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import type { StoredLog } from '@slipway/installation';
import { type JsonBound, ONE_TURN, parseJson } from '@slipway/program';
import { plainGet } from '../http/plain-get.js';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings, ProjectLogsSettings } from '../settings/settings.js';
import { type LogSelection, newestLinesOf } from './log-selection.js';
import type { ProjectLogLine } from './logs.schema.js';
import { logUnavailable, PartialReads } from './partial-reads.js';

const DEADLINE_MS = 5_000;
/** A journal has 128 KiB. */
const MOST_OF_LOG: JsonBound = { ...ONE_TURN, bytes: 1024 * 1024 };
/** Milliseconds until all lines of an instant were read: clocks of gateways differ, and are not read at once. */
const SETTLED_MS = 1_000;

@Injectable()
export class GatewayLogs {
  constructor(
    private readonly partly: PartialReads,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

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
      throw logUnavailable(cause);
    });
    if (gateways.length === 0) throw logUnavailable(new Error('there is no gateway'));
    const lines = await this.partly.all(gateways.map((gateway) => linesOf({ ...gateway, path })));
    return newestLinesOf(lines.flat(), limit);
  }
}

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
