/**
 * The harm that one tenant may try on a shared platform, each until its signal aborts. In: the attacker's project and
 * account. A refusal is what an attack expects; whether the others notice is looked at by the suite.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Management, ProjectView } from '../management.js';
import type { Platform } from '../platform.js';

export interface Attacker {
  platform: Platform;
  person: Management;
  project: ProjectView;
}

export interface Attack {
  name: string;
  run(attacker: Attacker, signal: AbortSignal): Promise<void>;
}

const SESSIONS = 8;

/** Sessions at `db_url` that each repeat `work` on a new connection, as sessions end by the platform's hand. */
function bySessions(count: number, work: (client: pg.Client, signal: AbortSignal, n: number) => Promise<void>) {
  return async ({ platform, project }: Attacker, signal: AbortSignal): Promise<void> => {
    const login = await platform.network.postgres(project.db_url);
    const session = async (_: unknown, n: number) => {
      while (!signal.aborted) {
        const client = new pg.Client({ ...login, connectionTimeoutMillis: 5_000 });
        client.on('error', () => {});
        // Without waiting: a connection that a full server never accepted does not end.
        const end = () => void client.end().catch(() => {});
        signal.addEventListener('abort', end, { once: true });
        try {
          await client.connect();
          await work(client, signal, n);
        } catch {
          await sleep(250);
        } finally {
          signal.removeEventListener('abort', end);
          end();
        }
      }
    };
    // Without waiting for the sessions: a client that is ended while it connects never settles connect().
    await Promise.race([Promise.all(Array.from({ length: count }, session)), once(signal, 'abort')]);
  };
}

const held = (statements: string[]) => async (client: pg.Client, signal: AbortSignal) => {
  for (const sql of statements) await client.query(sql);
  await heldUntilEnd(client, signal);
};

/** The session's end, by whomever. */
async function heldUntilEnd(client: pg.Client, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await client.query('select 1');
    await sleep(200);
  }
}

/** Sends as many requests as a caller can, a few at a time. */
function byRequests(count: number, request: (attacker: Attacker, n: number) => Promise<Response>) {
  return async (attacker: Attacker, signal: AbortSignal): Promise<void> => {
    let next = 0;
    const caller = async () => {
      while (!signal.aborted) {
        const response = await request(attacker, next++).catch(() => undefined);
        await response?.arrayBuffer().catch(() => undefined);
        if (!response?.ok) await sleep(10);
      }
    };
    await Promise.all(Array.from({ length: count }, caller));
  };
}

const bearer = (key: string) => ({ apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' });

export const ATTACKS: Attack[] = [
  {
    name: 'advisory locks that fill the lock table',
    run: bySessions(SESSIONS, async (client, signal, n) => {
      for (let from = 0; !signal.aborted; from += 10_000)
        await client.query(`select count(pg_advisory_lock(${n}, i)) from generate_series(${from}, ${from + 9_999}) i`);
    }),
  },
  {
    name: 'locks on thousands of large objects',
    run: bySessions(SESSIONS, async (client, signal) => {
      await client.query('begin');
      while (!signal.aborted) await client.query('select count(lo_create(0)) from generate_series(1, 5000)');
    }),
  },
  {
    name: 'locks on thousands of tables',
    run: bySessions(
      2,
      held([
        'begin',
        `do $$ begin for n in 1..20000 loop execute format('create table t%s_%s ()', pg_backend_pid(), n); end loop; end $$`,
      ]),
    ),
  },
  {
    name: 'a notification queue that a listener keeps from being emptied',
    run: async (attacker, signal) => {
      const listening = bySessions(1, held(['listen flood', 'begin', 'select 1']))(attacker, signal);
      const notifying = bySessions(3, async (client) => {
        for (;;)
          await client.query(
            `select count(pg_notify('flood', i || repeat('x', 7900))) from generate_series(1, 5000) i`,
          );
      })(attacker, signal);
      await Promise.all([listening, notifying]);
    },
  },
  {
    name: 'an open transaction that keeps the write-ahead log, and writers that fill it',
    run: async (attacker, signal) => {
      const open = bySessions(1, held(['begin', 'select pg_current_xact_id()', 'select 1']))(attacker, signal);
      const writing = bySessions(3, async (client) => {
        await client.query('create table if not exists wal (a text)');
        for (;;)
          await client.query(`begin; insert into wal select repeat('x', 2000) from generate_series(1, 5000); rollback`);
      })(attacker, signal);
      await Promise.all([open, writing]);
    },
  },
  {
    name: 'temporary files without end',
    run: bySessions(4, async (client) => {
      for (;;) await client.query('select count(*) from (select n from generate_series(1, 30000000) n order by -n) s');
    }),
  },
  {
    name: 'large sorts in memory',
    run: bySessions(SESSIONS, async (client) => {
      await client.query(`set work_mem = '2GB'`).catch(() => {});
      for (;;)
        await client.query(
          `select count(*) from (select repeat('x', 500) || n as t from generate_series(1, 200000) n order by t) s`,
        );
    }),
  },
  { name: 'more connections than a role may have', run: bySessions(40, held(['select 1'])) },
  {
    name: 'errors of a hundred megabytes over REST',
    run: async (attacker, signal) => {
      await attacker.person.query(
        attacker.project.id,
        `create or replace function shout() returns text language plpgsql as $$
           begin raise exception '%', repeat('x', 100000000); end $$; notify pgrst, 'reload schema'`,
      );
      await byRequests(4, ({ platform, project }) =>
        platform.network.fetch(`${project.postgrest_url}/rpc/shout`, {
          method: 'POST',
          headers: bearer(project.anon_key),
          body: '{}',
        }),
      )(attacker, signal);
    },
  },
  {
    name: 'wrong keys at MCP',
    run: byRequests(8, ({ platform, project }, n) =>
      platform.network.fetch(`${platform.url}/projects/${project.id}/mcp`, {
        method: 'POST',
        headers: { apikey: `wrong-${n}`, 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      }),
    ),
  },
  {
    name: 'wrong passwords at the management API',
    run: byRequests(8, ({ platform, person }, n) =>
      platform.network.fetch(`${platform.url}/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ email: person.email, password: `wrong password ${n}` }),
      }),
    ),
  },
  // The last: its database is read-only afterwards.
  {
    name: 'rows without end',
    run: bySessions(2, async (client) => {
      await client.query('set default_transaction_read_only = off; create table if not exists endless (t text)');
      for (;;)
        await client.query(`insert into endless select repeat(md5(n::text), 32) from generate_series(1, 20000) n`);
    }),
  },
];
