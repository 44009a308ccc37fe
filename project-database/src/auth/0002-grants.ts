import { OWNERS } from '../owners.js';

/**
 * Grants the group of owners its rights in schema `auth`: read and write rows, refer to them, and add triggers. Owners
 * can't change the tables. The three API roles get no rights here.
 */
export const grants = /* sql */ `
grant usage on schema auth to ${OWNERS}, anon, authenticated, service_role;
revoke all on all tables in schema auth from public, anon, authenticated, service_role;
grant select, insert, update, delete, references, trigger on all tables in schema auth to ${OWNERS} with grant option;
grant usage, select, update on all sequences in schema auth to ${OWNERS} with grant option;
revoke all on auth.schema_migrations from ${OWNERS};
grant select on auth.schema_migrations to ${OWNERS} with grant option;
`;
