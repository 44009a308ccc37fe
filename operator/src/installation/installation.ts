/**
 * Prepares an installation on a cluster: the platform's secrets, and its database with the API's role. In: the
 * Kubernetes API, later Postgres. Repeated until it succeeds, then at intervals. Started by the operator that leads.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '@slipway/kubernetes';
import { delayOf } from '@slipway/program';
import { PLATFORM_ROLES, preparePlatformDatabase } from '@slipway/project-database';
import pg from 'pg';
import type { Logger } from 'pino';
import { type PlatformSecrets, platformSecrets, platformUrl } from './secrets.js';

export interface InstallationOptions {
  client: KubeClient;
  log: Logger;
}

const BACKOFF = { firstMs: 250, maxMs: 5_000 };
const LOOK_AGAIN_MS = 300_000;
const CONNECT_TIMEOUT_MS = 5_000;
const QUERY_TIMEOUT_MS = 60_000;

export class PlatformInstallation {
  readonly #options: InstallationOptions;
  readonly #stop = new AbortController();
  readonly #prepared = Promise.withResolvers<void>();
  #loop: Promise<void> = Promise.resolve();

  constructor(options: InstallationOptions) {
    this.#options = options;
  }

  /** Resolves after the first success, or when it is closed. */
  start(): Promise<void> {
    this.#loop = this.#keep();
    return this.#prepared.promise;
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #keep(): Promise<void> {
    const { log } = this.#options;
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted; ) {
      try {
        await prepare(this.#options.client);
        if (failures > 0) log.info('platform database ready');
        failures = 0;
        this.#prepared.resolve();
      } catch (error) {
        failures += 1;
        log.warn({ why: wordsOf(error) }, 'platform database not ready; retried');
      }
      const wait = failures === 0 ? LOOK_AGAIN_MS : delayOf(BACKOFF, failures);
      await sleep(wait, undefined, { signal, ref: false }).catch(() => {});
    }
    this.#prepared.resolve();
  }
}

async function prepare(client: KubeClient): Promise<void> {
  const secrets = await platformSecrets(client);
  const password = passwordOfApi(secrets);
  if (password === undefined) return;
  await preparePlatformDatabase(
    async (database) => {
      const session = new pg.Client({
        connectionString: platformUrl(secrets.adminUrl, database).href,
        application_name: 'slipway-operator',
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        query_timeout: QUERY_TIMEOUT_MS,
      });
      // Without a listener, a connection that breaks between queries would end the process. The next query fails too.
      session.on('error', () => {});
      await session.connect();
      return session;
    },
    { api: password },
  );
}

/**
 * Returns the password of the API's own role. Undefined if the site set another login for the API, which is the site's
 * to manage.
 */
function passwordOfApi({ apiUrl }: PlatformSecrets): string | undefined {
  const url = URL.canParse(apiUrl) ? new URL(apiUrl) : undefined;
  return url?.username === PLATFORM_ROLES.api.role ? decodeURIComponent(url.password) : undefined;
}

/** Returns the message for the log. A message of Postgres may quote a statement, so only its code is logged. */
function wordsOf(error: unknown): string {
  const { code, message, severity } = error as { code?: string; message: string; severity?: string };
  return severity ? `Postgres reported ${code}` : message;
}
