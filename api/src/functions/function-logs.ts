/** Reads what a function wrote, from the data plane that runs it. */
import { type RequestOptions, request } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { FUNCTIONS_CONTROL_PORT, podOf } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';
import type { LogLine, LogQuery } from './function.schema.js';

const DEADLINE_MS = 5_000;

@Injectable()
export class FunctionLogs {
  constructor(@Inject(SETTINGS) private readonly settings: ApiSettings) {}

  /** Reads the log. A function that was never deployed has none. */
  async read(ref: string, name: string, { after = 0, limit = 100 }: LogQuery): Promise<LogLine[]> {
    const { functionsSocket, functionsPods } = this.settings;
    if (!functionsSocket && !functionsPods) {
      throw new Problem('unavailable', 'This installation runs no edge functions.');
    }
    const path = `/${encodeURIComponent(ref)}/${encodeURIComponent(name)}/logs?after=${after}&limit=${limit}`;
    const unavailable = (detail: string, seconds: number, cause: unknown) =>
      new Problem('unavailable', detail, { headers: { 'retry-after': String(seconds) }, cause });
    const { status, text } = await get(placeOf(this.settings, ref), path).catch((cause: unknown) => {
      throw unavailable('The data plane does not answer. Try again.', 1, cause);
    });
    if (status === 404) return [];
    if (status !== 200) {
      const cause = new Error(WHY[status] ?? `asked for logs, the data plane answered ${status}`);
      throw unavailable('The logs can not be read now. Try again in a minute.', 60, cause);
    }
    return JSON.parse(text) as LogLine[];
  }
}

/** For the log of the API. */
const WHY: Readonly<Record<number, string>> = {
  401: 'the pod that runs functions has another token than this API: a Secret slipway-functions that was made again reaches both within minutes',
};

/** Returns the address of the data plane that runs the project's functions. */
function placeOf({ functionsSocket: socketPath, functionsPods }: ApiSettings, ref: string): RequestOptions {
  if (socketPath) return { socketPath };
  const { urls, token } = functionsPods as NonNullable<ApiSettings['functionsPods']>;
  const { hostname: host } = new URL(podOf(ref, urls));
  return { host, port: FUNCTIONS_CONTROL_PORT, headers: { authorization: `Bearer ${token()}` } };
}

function get(place: RequestOptions, path: string): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const outgoing = request({ ...place, path, signal }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    outgoing.on('error', reject);
    outgoing.end();
  });
}
