/** For tests: projects' databases on a separate Postgres, made like the operator's engine makes them. */
import { databaseOf } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import pg from 'pg';
import { prepareCluster } from './cluster.js';
import { LOGIN_ROLES, type ProjectPasswords } from './roles.js';
import { buildSpare, ensureTemplate, newSpareId, takeSpare } from './spare.js';

export interface TestProjects {
  postgres: TestPostgres;
  /** A superuser's connection. */
  admin: pg.Client;
  /** Makes a project's database. The password of each role is `<part>-of-<ref>`. */
  create(ref: string): Promise<void>;
  /** Opens a session of one of the project's roles, by default in the project's database. */
  login(ref: string, part: keyof ProjectPasswords, database?: string): Promise<pg.Client>;
  close(): Promise<void>;
}

export async function startTestProjects(): Promise<TestProjects> {
  const postgres = await startTestPostgres();
  const connect = (database: string) => connected(postgres.admin(database));
  const admin = await connect('postgres');
  await prepareCluster(admin);
  await ensureTemplate(admin, connect);
  const password = (ref: string, part: string) => `${part}-of-${ref}`;
  return {
    postgres,
    admin,
    create: async (ref) => {
      const id = newSpareId();
      await buildSpare(admin, connect, id);
      const passwords = Object.fromEntries(LOGIN_ROLES.map(({ part }) => [part, password(ref, part)]));
      await takeSpare(admin, id, ref, passwords as unknown as ProjectPasswords);
    },
    login: (ref, part, database = databaseOf(ref)) => {
      const role = LOGIN_ROLES.find((candidate) => candidate.part === part);
      const user = role?.name(ref) as string;
      return connected({ ...postgres.admin(database), user, password: password(ref, part) });
    },
    close: async () => {
      await admin.end();
      await postgres.close();
    },
  };
}

async function connected(settings: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(settings);
  client.on('error', () => {});
  await client.connect();
  return client;
}
