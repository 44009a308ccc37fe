/**
 * For tests: queries for the databases, roles and slots of projects on a Postgres server. In: a superuser's session in
 * the database `postgres`. Out: names with the project's ref, so that a test can compare them with the refs it expects.
 * A name without a record is returned unchanged.
 */
const KNOWN = (id: string) => `LEFT JOIN slipway.databases known ON known.database_id = ${id}`;
const ROLE_ID = `split_part(rolname, '.', 2)`;

export const PROJECT_INVENTORY = {
  databases: `SELECT coalesce('p-' || known.ref, datname) FROM pg_database ${KNOWN('substr(datname, 3)')}
    WHERE datname LIKE 'p-%'`,
  roles: `SELECT split_part(rolname, '.', 1) || '.' || coalesce(known.ref, ${ROLE_ID}) FROM pg_roles ${KNOWN(ROLE_ID)}
    WHERE rolname LIKE '%.%' AND rolname NOT LIKE '%.spare\\_%'`,
  /** The server's records of databases. A record without a database is a leak. */
  records: 'SELECT ref FROM slipway.databases',
} as const;
