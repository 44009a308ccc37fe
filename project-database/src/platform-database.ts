/**
 * The platform's own database and the login roles of its programs. In: an administrator's sessions, passwords. Run at
 * each start: it makes what is missing and leaves the rest. Called by the one-machine program, and on a cluster by the
 * operator.
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

/** `passwords`: of the programs that there are. An administrator who is no superuser may make roles and databases. */
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
      // A superuser is as good as a member of every role.
      const { role } = PLATFORM_ROLES[program as PlatformProgram];
      if (!isSuperuser) await session.query(`GRANT ${role} TO current_user`);
    }
    const found = await session.query(`SELECT FROM pg_database WHERE datname = ${literal(PLATFORM_DATABASE)}`);
    if (found.rows.length === 0) await session.query(`CREATE DATABASE ${identifier(PLATFORM_DATABASE)}`);
    // The other two may be somebody else's.
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
  // Only who has such an attribute may say anything of it, even no.
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
