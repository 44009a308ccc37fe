/** For tests: a server whose databases have small quotas, and clients that write to one. */
import { authenticatorRole, DATABASE_BYTES, databaseOf, ownerRole, queryRole } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { newDatabaseId } from '@slipway/project-database';
import pg from 'pg';
import { adminUrl, silentLog } from '../../testing.js';
import { projectNamed } from '../engine.suite.js';
import { DatabaseServer, type DatabaseServerSettings } from './server.js';

export const QUOTA = 40e6;

export interface FullDatabases {
  postgres: TestPostgres;
  server: DatabaseServer;
  superuser: pg.Client;
  /** Messages about full databases, each after its project's ref. */
  full: string[];
}

export async function startFullDatabases(more: Partial<DatabaseServerSettings> = {}): Promise<FullDatabases> {
  const postgres = await startTestPostgres();
  const superuser = new pg.Client(postgres.admin());
  await superuser.connect();
  const full: string[] = [];
  return { postgres, server: newServer(postgres, full, more), superuser, full };
}

export async function closeFullDatabases({ postgres, server, superuser }: FullDatabases): Promise<void> {
  await superuser.end();
  await server.close();
  await postgres.close();
}

export const newServer = (postgres: TestPostgres, full: string[], more: Partial<DatabaseServerSettings> = {}) =>
  new DatabaseServer({
    adminUrl: adminUrl(postgres),
    spares: 1,
    ofOne: false,
    databaseBytes: { ...DATABASE_BYTES, free: QUOTA },
    onDatabaseFull: (ref, message) => full.push(`${ref}: ${message}`),
    log: silentLog,
    ...more,
  });

export interface SmallProject {
  id: string;
  ensure(server?: DatabaseServer): Promise<unknown>;
  login(role: 'owner' | 'authenticator' | 'query'): Promise<pg.Client>;
  size(): Promise<number>;
}

/** Creates a project in an account of its own. */
export async function smallProject({ postgres, server, superuser }: FullDatabases, ref: string): Promise<SmallProject> {
  const id = newDatabaseId();
  const passwords = { owner: 'owner', authenticator: 'authenticator', authAdmin: 'auth-admin' };
  const project = { ...projectNamed(ref), owner: `${ref}@example.com` };
  const ensure = (by = server) => by.ensure({ project, databaseId: id, passwords, existed: false });
  const users = { owner: ownerRole(id), authenticator: authenticatorRole(id), query: queryRole(id) };
  const login = async (role: keyof typeof users) => {
    const password = role === 'owner' ? 'owner' : 'authenticator';
    const options = role === 'query' ? `-c role=${ownerRole(id)}` : '';
    const client = new pg.Client({
      ...postgres.admin(databaseOf(id)),
      user: users[role],
      password,
      options,
      connectionTimeoutMillis: 5_000,
    });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const size = async () => {
    const { rows } = await superuser.query('select pg_database_size($1)::int8 as size', [databaseOf(id)]);
    return Number(rows[0].size);
  };
  await ensure();
  return { id, ensure, login, size };
}

export const fill = (megabytes: number) =>
  `insert into rows select repeat(md5(n::text), 32) from generate_series(1, ${megabytes * 1000}) n`;

/** Logs in with the first role that may log in, and inserts, again and again until `isOver`. */
export async function writeOn(
  project: SmallProject,
  isOver: (refusals: number) => boolean,
  roles: readonly ('owner' | 'query')[] = ['owner', 'query'],
): Promise<void> {
  for (let refusals = 0; !isOver(refusals); ) {
    const client = await firstLogin(project, roles);
    if (!client) {
      refusals++;
      await new Promise((resolve) => setTimeout(resolve, 10));
      continue;
    }
    await client.query('set default_transaction_read_only = off').catch(() => {});
    for (let isOpen = true; isOpen && !isOver(refusals); ) {
      isOpen = await client.query(fill(1)).then(...always(true, false));
    }
    // Does not wait: the end of a connection that the server has closed may never resolve.
    void client.end().catch(() => {});
  }
}

async function firstLogin(
  project: SmallProject,
  roles: readonly ('owner' | 'query')[],
): Promise<pg.Client | undefined> {
  for (const role of roles) {
    const client = await project.login(role).catch(() => undefined);
    if (client) return client;
  }
  return undefined;
}

const always = <T>(done: T, failed: T) => [() => done, () => failed] as const;
