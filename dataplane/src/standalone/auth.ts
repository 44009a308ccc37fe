/**
 * Auth as a program of its own: GoTrue's environment, its schema brought up to date first, until it is told to stop.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { scramOnly } from '@slipway/crds';
import { migrateAuth } from '@slipway/project-database';
import pg from 'pg';
import { type Logger, pino } from 'pino';
import { createAuthService } from '../auth/index.js';
import { endRequests, listen } from '../listening.js';
import type { Login } from '../tenant.js';
import { readAuthSettings } from './auth-settings.js';
import { type Running, runProgram } from './program.js';
import { createServiceServer } from './server.js';

/**
 * A database may take its time to come up, or to hear of a new password; beyond it, whoever started us sees that it is
 * not there.
 */
const ATTEMPTS = 60;
const BETWEEN_MS = 500;
const CONNECT_MS = 5_000;

await runProgram('auth', async () => startAuth(process.env));

async function startAuth(environment: NodeJS.ProcessEnv): Promise<Running> {
  const { tenant, listen: at, logLevel, ignored } = readAuthSettings(environment);
  const log = pino({ level: logLevel });
  for (const { name, reason } of ignored) log.warn({ name, reason }, 'malformed setting ignored');
  await migrate(tenant.authAdmin, log);
  const service = createAuthService({ log });
  const server = createServiceServer({ tenant, service, anonymous: undefined, refusalOf: undefined, log });
  const url = await listen(server, at);
  log.info({ url }, 'auth serves');
  return {
    close: async () => {
      await endRequests(server);
      await service.close();
    },
  };
}

async function migrate(login: Login, log: Logger): Promise<void> {
  const client = await connected(login, log);
  try {
    await migrateAuth(client);
  } finally {
    await client.end();
  }
}

async function connected(login: Login, log: Logger): Promise<pg.Client> {
  for (let attempt = 1; ; attempt++) {
    const client = scramOnly(
      new pg.Client({ ...login, application_name: 'slipway', connectionTimeoutMillis: CONNECT_MS }),
    );
    client.on('error', () => undefined);
    try {
      await client.connect();
      return client;
    } catch (error) {
      await client.end().catch(() => undefined);
      const reason = (error as Error).message;
      if (attempt === ATTEMPTS) throw new Error(`the database of GOTRUE_DB_DATABASE_URL can not be reached: ${reason}`);
      log.warn({ reason, attempt }, 'database not reachable yet');
      await wait(BETWEEN_MS);
    }
  }
}
