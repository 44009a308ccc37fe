/** The platform's database on this machine: who may log in to it from where, and how it is prepared at each start. */
import { REPLICATION_ROLE } from '@slipway/crds';
import { PLATFORM_DATABASE, PLATFORM_ROLES, preparePlatformDatabase } from '@slipway/project-database';
import pg from 'pg';

/** Who may log in from where: the platform's own roles and database only over the Unix socket, and nobody without a password. */
export const ACCESS_RULES = `
local all all scram-sha-256
host all slipway,${PLATFORM_ROLES.apiserver.role},${PLATFORM_ROLES.api.role},${REPLICATION_ROLE} all reject
host ${PLATFORM_DATABASE},postgres,template0,template1 all all reject
host all all all scram-sha-256
`;

export function preparePlatform(
  admin: pg.ClientConfig,
  passwords: Parameters<typeof preparePlatformDatabase>[1],
): Promise<void> {
  return preparePlatformDatabase(async (database) => {
    const client = new pg.Client({ ...admin, database });
    // A connection that breaks outside a query says so here; the next query fails too.
    client.on('error', () => {});
    await client.connect();
    return client;
  }, passwords);
}
