import { OWNERS } from '../owners.js';

/**
 * Rights of the project's owner, a member of the group of owners, in schema `auth`: read and write the data, refer to
 * it, and add triggers; not change its shape. The three API roles get nothing here.
 */
export const grants = /* sql */ `
grant usage on schema auth to ${OWNERS}, anon, authenticated, service_role;
revoke all on all tables in schema auth from public, anon, authenticated, service_role;
grant select, insert, update, delete, references, trigger on all tables in schema auth to ${OWNERS} with grant option;
grant usage, select, update on all sequences in schema auth to ${OWNERS} with grant option;
revoke all on auth.schema_migrations from ${OWNERS};
grant select on auth.schema_migrations to ${OWNERS} with grant option;
`;
