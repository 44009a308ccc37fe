/**
 * For tests: which databases, roles and slots of projects a Postgres server has. In: a superuser's session in its
 * database `postgres`. Out: names as the ref gives them, so that a test can compare them with the refs it expects; what
 * no record explains keeps its own name.
 */
const KNOWN = (id: string) => `LEFT JOIN slipway.databases known ON known.database_id = ${id}`;
const ROLE_ID = `split_part(rolname, '.', 2)`;

export const PROJECT_INVENTORY = {
  databases: `SELECT coalesce('p-' || known.ref, datname) FROM pg_database ${KNOWN('substr(datname, 3)')} WHERE datname LIKE 'p-%'`,
  roles: `SELECT split_part(rolname, '.', 1) || '.' || coalesce(known.ref, ${ROLE_ID}) FROM pg_roles ${KNOWN(ROLE_ID)}
    WHERE rolname LIKE '%.%' AND rolname NOT LIKE '%.spare\\_%'`,
  /** The server's records of databases; one without a database is a leak. */
  records: 'SELECT ref FROM slipway.databases',
} as const;
