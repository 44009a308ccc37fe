/**
 * Checks that a login of one project can't read the name of another project on its Postgres server, or of its owner.
 * The tests read every relation of the system catalogs as a tenant, so they also cover views of a later Postgres
 * release. One suite for every platform. In: a project, and neighbours that are in use, suspended and retained.
 */
import { randomUUID } from 'node:crypto';
import { type Plan } from '@slipway/crds';
import { replicationSlotOf } from '@slipway/installation';
import pg from 'pg';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { databaseIdOf, type Login } from './network.js';
import type { Platform } from './platform.js';
import { clientOf, heardBy, TODOS_SQL } from './todos.js';

export interface Watched {
  platform: Platform;
  plan: Plan;
  /** The login of the tenant that reads the catalogs. */
  login(): Promise<Login>;
}

const WAIT = '--timeout=180s';
/** SQLSTATE of a query for catalogs with passwords and statistics, which a tenant can't read. */
const INSUFFICIENT_PRIVILEGE = '42501';
/** New for each run: a cluster keeps the account of an earlier run. */
const SUFFIX = `hidden${randomUUID().slice(0, 8)}`;

export function hiddenNames(test: Test, watched: Watched): void {
  const neighbours: ProjectView[] = [];
  let owner: Management;
  const open: { end(): unknown }[] = [];

  test.after(async () => {
    await Promise.allSettled(open.map((each) => each.end()));
  });

  test('neighbours with recognisable names are in use, suspended and retained', async () => {
    const { platform, plan } = watched;
    owner = await Management.register(platform, `owner.of-${SUFFIX}@example.com`);
    for (const state of ['used', 'suspended', 'retained']) {
      const made = await owner.createProject(`${state}-${SUFFIX}`, plan);
      neighbours.push(await owner.untilHealthy(made.id));
    }
    const [used, suspended, retained] = neighbours as [ProjectView, ProjectView, ProjectView];
    await owner.query(used.id, TODOS_SQL);
    const listener = clientOf(used, platform.network);
    open.push({ end: () => listener.removeAllChannels() });
    // Before the transaction, because a new slot waits for open transactions.
    await heardBy(listener);
    const session = new pg.Client(await platform.network.postgres(used.db_url));
    session.on('error', () => undefined);
    await session.connect();
    open.push(session);
    await session.query('BEGIN; CREATE TABLE of_an_open_transaction (id int)');
    if (!kubectlIsThere) return;
    const change = (ref: string, spec: object) =>
      kubectl(platform.kubeconfig, ['patch', 'project', ref, '--type=merge', '-p', JSON.stringify({ spec })]);
    await change(suspended.ref, { suspend: true });
    await change(retained.ref, { deletionPolicy: 'Retain' });
    await kubectl(platform.kubeconfig, [
      'wait',
      '--for=jsonpath={.status.phase}=suspended',
      `project/${suspended.ref}`,
      WAIT,
    ]);
    await kubectl(platform.kubeconfig, ['delete', 'project', retained.ref, WAIT]);
  });

  test('no relation of the system catalogs names a neighbour or its owner to a tenant', async () => {
    const login = await watched.login();
    const own = databaseIdOf(login);
    const named = [SUFFIX, ...neighbours.flatMap(({ ref }) => [ref, replicationSlotOf(ref)])];
    const scan = await readCatalogs(login, [own, ...named]);
    assert.ok(scan.relations > 150, `${scan.relations} relations were read`);
    assert.ok(
      scan.rows.some(({ relation, row }) => relation === 'pg_catalog.pg_database' && row.includes(own)),
      'the search finds the tenant’s own database',
    );
    assert.equal(
      scan.rows.filter(({ row }) => named.some((name) => row.includes(name))),
      [],
    );
  });

  test('the replication slot of a listening neighbour has an opaque name', async () => {
    const admin = new pg.Client(await watched.platform.admin());
    await admin.connect();
    const { rows } = await admin.query('select slot_name as name from pg_replication_slots').finally(() => admin.end());
    const [used] = neighbours as [ProjectView];
    const slot = replicationSlotOf(databaseIdOf(await watched.platform.network.postgres(used.db_url)));
    assert.ok(rows.some(({ name }) => name === slot));
    assert.not.ok(slot.includes(used.ref));
  });
}

interface Scan {
  relations: number;
  /** The rows that contain one of the words. */
  rows: { relation: string; row: string }[];
}

/** The words are parameters, because as text they would be in the reader's own row of pg_stat_activity. */
async function readCatalogs(login: Login, words: string[]): Promise<Scan> {
  const client = new pg.Client(login);
  await client.connect();
  const scan: Scan = { relations: 0, rows: [] };
  try {
    const { rows: relations } = await client.query<{ name: string }>(`
      select format('%I.%I', nspname, relname) as name
      from pg_class join pg_namespace on pg_namespace.oid = relnamespace
      where nspname in ('pg_catalog', 'information_schema') and relkind in ('r', 'v', 'm') order by 1`);
    for (const { name } of relations) {
      const sql =
        `select t::text as row from ${name} t ` +
        "where exists (select from unnest($1::text[]) w where t::text like '%' || w || '%')";
      const found = await client.query<{ row: string }>(sql, [words]).catch((error) => {
        if (error.code !== INSUFFICIENT_PRIVILEGE) throw error;
      });
      if (!found) continue;
      scan.relations += 1;
      scan.rows.push(...found.rows.map(({ row }) => ({ relation: name, row })));
    }
  } finally {
    await client.end();
  }
  return scan;
}
