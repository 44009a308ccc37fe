/**
 * Creates a project's database: roles, schemas, grants, and the `auth` schema's migrations. In: superuser sessions and
 * passwords. Out: databases. The operator's engine uses it; the data plane uses only the migrations.
 */
export { authMigrations, type Migration } from './auth/index.js';
export { forgetGroupSettings, openReplication, prepareCluster } from './cluster.js';
export {
  forgetDatabase,
  newDatabaseId,
  ownRecord,
  prepareRegistry,
  type RegisteredDatabase,
  refsOfDatabases,
  registeredDatabase,
  retainRecord,
} from './database-registry.js';
export { migrateAuth } from './migrate-auth.js';
export { unknownMigration } from './newer-release.js';
export { naming } from './owners.js';
export {
  PLATFORM_DATABASE,
  PLATFORM_ROLES,
  type PlatformProgram,
  preparePlatformDatabase,
} from './platform-database.js';
export { migrateRealtime, realtimeMigrations } from './realtime/index.js';
export { LACKS_GENERATED_COLUMNS, publishGeneratedColumns } from './realtime/publication.js';
export { replicationPasswordAt } from './replication-password.js';
export { dropIdleReplicationSlots } from './replication-slots.js';
export { RESERVED_CONNECTIONS_ROLE } from './reserved-connections.js';
export {
  createRole,
  grantGroups,
  LOGIN_ROLES,
  type LoginRole,
  type ProjectPasswords,
  roleAttributes,
} from './roles.js';
export { scramVerifier, verifierMatches } from './scram.js';
export { identifier, literal, type Session, transaction } from './session.js';
export { shutDatabase } from './shut-database.js';
export {
  BUILDING_PREFIX,
  buildSpare,
  type Connect,
  dropDatabase,
  dropGoneRoles,
  dropRole,
  ensureTemplate,
  newSpareId,
  SPARE_PREFIX,
  spareRef,
  TEMPLATE,
  TEMPLATE_PREFIX,
  takeSpare,
} from './spare.js';
export { migrateStorage, storageMigrations } from './storage/index.js';
