/** Serves health probes at paths of the platform's own, under no project's address. */
import type { ServerResponse } from 'node:http';
import { refuse, STARTING } from './refusals.js';

const LIVE = '/healthz';
const READY = '/readyz';

/** False: the request is for somebody else. */
export function answerProbe(url: string, isReady: () => boolean, outgoing: ServerResponse): boolean {
  if (url !== LIVE && url !== READY) return false;
  refuse(outgoing, url === LIVE || isReady() ? { status: 200, body: { ok: true } } : STARTING);
  return true;
}
