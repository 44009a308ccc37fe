/** Reads the logs of a function from the data plane that runs it. */

import type { RequestOptions } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { FUNCTIONS_CONTROL_PORT, podOf } from '@slipway/installation';
import { type JsonBound, ONE_TURN, parseJson } from '@slipway/program';
import { plainGet } from '../http/plain-get.js';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import type { LogLine, LogQuery } from './function.schema.js';

const DEADLINE_MS = 5_000;
/** Limits of a response with logs. Decoding 2 MiB of control characters and encoding them again takes 12 ms. */
const MOST_OF_LOG: JsonBound = { ...ONE_TURN, bytes: 2 * 1024 * 1024 };

@Injectable()
export class FunctionLogs {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

  /**
   * Reads the log. A function that was never deployed has none. `socketPath`: the socket of the functions on the
   * project's own machine; undefined: those of the installation run it.
   */
  read(ref: string, name: string, { after = 0, limit = 100 }: LogQuery, socketPath?: string): Promise<LogLine[]> {
    return this.lines(ref, `/${encodeURIComponent(name)}/logs?after=${after}&limit=${limit}`, socketPath);
  }

  /** Reads the newest lines of all functions of the project, oldest first. */
  readAll(ref: string, limit: number, socketPath?: string): Promise<(LogLine & { function: string })[]> {
    return this.lines(ref, `//logs?limit=${limit}`, socketPath);
  }

  private async lines<T extends LogLine>(ref: string, rest: string, socketPath: string | undefined): Promise<T[]> {
    const { functionsSocket, functionsPods } = this.settings;
    if (!socketPath && !functionsSocket && !functionsPods) {
      throw new Problem('unavailable', 'This installation runs no edge functions.');
    }
    const path = `/${encodeURIComponent(ref)}${rest}`;
    const unavailable = (detail: string, seconds: number, cause: unknown) =>
      new Problem('unavailable', detail, { headers: { 'retry-after': String(seconds) }, cause });
    const { status, text } = await plainGet(
      { ...(socketPath ? { socketPath } : placeOf(this.settings, ref)), path },
      { deadlineMs: DEADLINE_MS, bytes: MOST_OF_LOG.bytes },
    ).catch((cause: unknown) => {
      throw unavailable('The data plane does not respond. Try again.', 1, cause);
    });
    if (status === 404) return [];
    if (status !== 200) {
      const cause = new Error(WHY[status] ?? `the data plane answered the request for logs with ${status}`);
      throw unavailable('The logs can not be read now. Try again in a minute.', 60, cause);
    }
    return parseJson(text, MOST_OF_LOG) as T[];
  }
}

/** Reasons that the API logs, by status of the data plane's response. */
const WHY: Readonly<Record<number, string>> = {
  401:
    'the function pod and this API have different tokens: ' +
    'a replaced Secret slipway-functions reaches both within minutes',
};

/** Returns the address of the data plane that runs the project's functions. */
function placeOf({ functionsSocket: socketPath, functionsPods }: ApiSettings, ref: string): RequestOptions {
  if (socketPath) return { socketPath };
  const { urls, token } = functionsPods as NonNullable<ApiSettings['functionsPods']>;
  const { hostname: host } = new URL(podOf(ref, urls));
  return { host, port: FUNCTIONS_CONTROL_PORT, headers: { authorization: `Bearer ${token()}` } };
}
