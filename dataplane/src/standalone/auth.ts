/** Auth as a separate program: reads GoTrue's environment, migrates its schema, and serves until it is stopped. */

import { setTimeout as wait } from 'node:timers/promises';
import { FOR_OWNER, scramOnly } from '@slipway/installation';
import { endRequests, listen, type Running, runProgram } from '@slipway/program';
import { outboundTo } from '@slipway/program/outbound.js';
import { migrateAuth } from '@slipway/project-database';
import pg from 'pg';
import { type Logger, pino } from 'pino';
import { ownerLogTo } from '../logs/owner-log.js';
import { createAuthService } from '../services/auth/index.js';
import type { Login } from '../sql/login.js';
import { type AuthSettings, readAuthSettings } from './auth-settings.js';
import { createServiceServer } from './server.js';

/**
 * Number of attempts at start, in which a database may start or get a new password. Then the program exits, which its
 * supervisor reports.
 */
const ATTEMPTS = 60;
const BETWEEN_MS = 500;
const CONNECT_MS = 5_000;

await runProgram('auth', () => readAuthSettings(process.env), startAuth);

async function startAuth(settings: AuthSettings): Promise<Running> {
  const { tenant, listen: at, logLevel, ignored } = settings;
  const log = pino({ level: logLevel });
  // The level is that of the other programs, whose lines for owners do not depend on it.
  const ownerLog = ownerLogTo(log.child(FOR_OWNER, { level: 'info' }));
  for (const { name, reason } of ignored) {
    log.warn({ name, reason }, 'malformed setting ignored');
    ownerLog.write(tenant.ref, 'auth', { level: 'warn', message: 'setting ignored', facts: { key: name, reason } });
  }
  await migrate(tenant.authAdmin, log);
  // The NetworkPolicy of the project's pods limits the connections of this program.
  const service = createAuthService({ log, ownerLog, outbound: outboundTo(() => true) });
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
