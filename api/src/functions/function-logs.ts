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

  /** Of a function that was never deployed there are none. */
  async read(ref: string, name: string, { after = 0, limit = 100 }: LogQuery): Promise<LogLine[]> {
    const place = placeOf(this.settings, ref);
    if (!place) throw new Problem('unavailable', 'This installation runs no edge functions.');
    const path = `/${encodeURIComponent(ref)}/${encodeURIComponent(name)}/logs?after=${after}&limit=${limit}`;
    const { status, text } = await get(place, path).catch((cause: unknown) => {
      const headers = { 'retry-after': '1' };
      throw new Problem('unavailable', 'The data plane does not answer. Try again.', { headers, cause });
    });
    return status === 200 ? (JSON.parse(text) as LogLine[]) : [];
  }
}

/** Of the data plane that runs the project's functions. */
function placeOf({ functionsSocket: socketPath, functionsPods }: ApiSettings, ref: string): RequestOptions | undefined {
  if (socketPath) return { socketPath };
  if (!functionsPods) return undefined;
  const { hostname: host } = new URL(podOf(ref, functionsPods.urls));
  return { host, port: FUNCTIONS_CONTROL_PORT, headers: { authorization: `Bearer ${functionsPods.token}` } };
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
