/**
 * Prepares the platform's own database and the login roles of its programs. In: an administrator's sessions, and
 * passwords. Out: the database and the roles. It runs at each start, creates what is missing, and changes nothing else.
 * The one-machine program calls it, and on a cluster the operator does.
 */
import { scramVerifier } from './scram.js';
import { identifier, literal, type Session } from './session.js';
import type { Connect } from './spare.js';

export const PLATFORM_DATABASE = 'slipway';
export const PLATFORM_ROLES = {
  apiserver: { role: 'slipway_apiserver', schema: 'kube', connections: 40 },
  api: { role: 'slipway_api', schema: 'platform', connections: 40 },
} as const;
export type PlatformProgram = keyof typeof PLATFORM_ROLES;

/**
 * `passwords` has only the programs that exist. An administrator without superuser rights needs CREATEROLE and
 * CREATEDB.
 */
export async function preparePlatformDatabase(
  connect: Connect,
  passwords: Partial<Record<PlatformProgram, string>>,
): Promise<void> {
  const programs = (Object.keys(passwords) as PlatformProgram[]).map((program) => PLATFORM_ROLES[program]);
  await within(connect, 'postgres', async (session) => {
    const { rows } = await session.query('SELECT rolsuper FROM pg_roles WHERE rolname = current_user');
    const isSuperuser = rows[0]?.rolsuper === true;
    for (const [program, password] of Object.entries(passwords)) {
      await prepareRole(session, PLATFORM_ROLES[program as PlatformProgram], password);
      // A superuser needs no membership.
      const { role } = PLATFORM_ROLES[program as PlatformProgram];
      if (!isSuperuser) await session.query(`GRANT ${role} TO current_user`);
    }
    const existing = await session.query(`SELECT FROM pg_database WHERE datname = ${literal(PLATFORM_DATABASE)}`);
    if (existing.rows.length === 0) await session.query(`CREATE DATABASE ${identifier(PLATFORM_DATABASE)}`);
    // Without superuser rights, the other two databases may belong to somebody else.
    const ours = isSuperuser ? [PLATFORM_DATABASE, 'postgres', 'template1'] : [PLATFORM_DATABASE];
    for (const database of ours) await session.query(`REVOKE ALL ON DATABASE ${identifier(database)} FROM PUBLIC`);
  });
  await within(connect, PLATFORM_DATABASE, async (session) => {
    await session.query('REVOKE ALL ON SCHEMA public FROM PUBLIC');
    for (const { role, schema } of programs) {
      await session.query(`CREATE SCHEMA IF NOT EXISTS ${schema} AUTHORIZATION ${role}`);
      await session.query(`GRANT CONNECT ON DATABASE ${identifier(PLATFORM_DATABASE)} TO ${role}`);
      await session.query(
        `ALTER ROLE ${role} IN DATABASE ${identifier(PLATFORM_DATABASE)} SET search_path = ${schema}`,
      );
    }
  });
}

const NOTHING_SPECIAL = 'NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS';

async function prepareRole(
  session: Session,
  { role, connections }: { role: string; connections: number },
  password: string,
): Promise<void> {
  const { rows } = await session.query(
    `SELECT rolsuper OR rolcreatedb OR rolcreaterole OR rolreplication OR rolbypassrls AS special
     FROM pg_roles WHERE rolname = ${literal(role)}`,
  );
  if (rows.length === 0) await session.query(`CREATE ROLE ${role}`);
  // Only a session with such an attribute may name it in ALTER ROLE, even to remove it from another role.
  const attributes = rows[0]?.special ? NOTHING_SPECIAL : '';
  const verifier = literal(await scramVerifier(password));
  await session.query(`ALTER ROLE ${role} LOGIN ${attributes} CONNECTION LIMIT ${connections} PASSWORD ${verifier}`);
}

async function within(connect: Connect, database: string, work: (session: Session) => Promise<void>): Promise<void> {
  const session = await connect(database);
  try {
    await work(session);
  } finally {
    await session.end();
  }
}
