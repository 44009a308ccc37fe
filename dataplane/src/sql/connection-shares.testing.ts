/**
 * One of several processes of an installation for tests, whose services keep databases of projects busy. In: the
 * projects, as a message. Runs until it is killed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { placeDatabase } from './account-shares.js';
import type { Login } from './login.js';
import { Pool } from './pool.js';

const REQUESTS_PER_PROJECT = 6;

process.on('message', (logins: Login[]) => {
  for (const login of logins) placeDatabase(login.database, login);
  for (const login of logins) {
    const pool = new Pool(login);
    for (let n = 0; n < REQUESTS_PER_PROJECT; n++) void keepBusy(pool);
  }
});

async function keepBusy(pool: Pool): Promise<never> {
  for (;;) await pool.query('select pg_sleep(5)').catch(() => sleep(50));
}
