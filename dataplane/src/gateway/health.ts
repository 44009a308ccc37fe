/** Serves health probes at paths of the platform itself. */
import type { ServerResponse } from 'node:http';
import { PAUSES_PATH } from '@slipway/installation';
import { refuse, STARTING } from '../http/refusals.js';
import type { PausedProjects } from '../projects/paused-projects.js';

const LIVE = '/healthz';
const READY = PAUSES_PATH;

export interface Health {
  complete(): boolean;
  paused?: PausedProjects | undefined;
  revision?: (() => string) | undefined;
}

/** Returns false if the request is not a probe. */
export function answerProbe(url: string, { complete, paused, revision }: Health, outgoing: ServerResponse): boolean {
  if (url === LIVE) refuse(outgoing, { status: 200, body: { ok: true } });
  else if (url !== READY) return false;
  else if (!complete()) refuse(outgoing, STARTING);
  else {
    const body = { ok: true, paused: paused?.reasons() ?? {}, ...(revision && { revision: revision() }) };
    refuse(outgoing, { status: 200, body });
  }
  return true;
}
