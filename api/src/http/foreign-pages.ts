/**
 * Rejects requests that pages of foreign sites send through their reader's browser. CORS alone would only hide the
 * responses: a form or a `no-cors` request still arrives. Clients other than browsers send neither `Origin` nor
 * `Sec-Fetch-Site`, and are not affected.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import type { ApiSettings } from '../settings/settings.js';
import { Problem } from './problem.js';

/** Origins whose pages may call the API: its own, and those of the setting. */
export const allowedOrigins = ({ publicUrl, corsOrigins = [] }: Pick<ApiSettings, 'publicUrl' | 'corsOrigins'>) =>
  new Set([new URL(publicUrl).origin, ...corsOrigins]);

export function refuseForeignPages(fastify: FastifyInstance, origins: ReadonlySet<string>): void {
  fastify.addHook('onRequest', async ({ method, headers }) => {
    if (SAFE_METHODS.has(method) || !isForeign(headers, origins)) return;
    throw new Problem(
      'foreign_origin',
      'The header `Origin` or `Sec-Fetch-Site` names a page of another site. If the page is yours, add its origin to ' +
        'SLIPWAY_CORS_ORIGINS (on a cluster: corsOrigins of the site settings).',
    );
  });
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

function isForeign(headers: IncomingHttpHeaders, origins: ReadonlySet<string>): boolean {
  const { origin, host } = headers;
  const site = headers['sec-fetch-site'];
  if (origin === undefined) return site === 'cross-site' || site === 'same-site';
  if (origins.has(origin)) return false;
  // The page was opened under another name of the platform, such as 127.0.0.1: the data plane has checked the name.
  const isOwn = URL.canParse(origin) && new URL(origin).host === host;
  return !isOwn || (site !== undefined && site !== 'same-origin');
}
