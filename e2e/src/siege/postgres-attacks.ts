/** Attacks of one tenant on a Postgres that others share, through its `db_url`. */
import { type Attack, bySessions, kept, keptSilently } from './attack.js';

const SESSIONS = 8;
const OPEN_TRANSACTION = ['begin', 'select pg_current_xact_id()'];

export const POSTGRES_ATTACKS: Attack[] = [
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
      kept([
        'begin',
        "do $$ begin for n in 1..20000 loop execute format('create table t%s_%s ()', pg_backend_pid(), n); " +
          'end loop; end $$',
      ]),
    ),
  },
  {
    name: 'a notification queue that a listener blocks',
    run: async (attacker, signal) => {
      const listening = bySessions(1, kept(['listen flood', 'begin', 'select 1']))(attacker, signal);
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
    name: 'open transactions that retain the write-ahead log, and writers that fill it',
    run: async (attacker, signal) => {
      const open = Promise.all(
        [kept(OPEN_TRANSACTION), keptSilently(OPEN_TRANSACTION)].map((each) => bySessions(1, each)(attacker, signal)),
      );
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
  {
    name: 'memory that many sessions take at once',
    run: bySessions(20, async (client) => {
      const taken = `do $$ declare t text := repeat(repeat('x', 100000), 750); begin perform pg_sleep(10); end $$`;
      for (;;) await client.query(taken);
    }),
  },
  { name: 'more connections than a role may have', run: bySessions(40, kept(['select 1'])) },
];

/** Attack that fills the attacker's database, which is then read-only. */
export const ENDLESS_ROWS: Attack = {
  name: 'rows without end',
  run: bySessions(2, async (client) => {
    await client.query('set default_transaction_read_only = off; create table if not exists endless (t text)');
    for (;;) await client.query(`insert into endless select repeat(md5(n::text), 32) from generate_series(1, 20000) n`);
  }),
};

/** Attacks without an immediate effect, which run beside all other attacks. */
export const LASTING_ATTACKS: Attack[] = [
  { name: 'an open transaction that sends nothing', run: bySessions(1, keptSilently(OPEN_TRANSACTION)) },
  { name: 'an open transaction that sends a statement a second', run: bySessions(1, kept(OPEN_TRANSACTION)) },
];
