/**
 * The embedded Postgres: finds the binaries that npm installed, makes a cluster, starts it and stops it. In: a folder
 * and a port. Out: a running server. The one-machine program uses it directly, and tests use it through `./testing.js`.
 */
export { HOME as SHARED_HOME, postgresAccount, reachableFolder } from './account.js';
export { writeAtomically } from './atomic-file.js';
export { installedBinaries } from './binaries.js';
export { linkTarget, readRecord, recordOf } from './folder-record.js';
export { type HostilePostgres, type PasswordQuestion, startHostilePostgres } from './hostile.js';
export { endLeftover } from './leftover.js';
export type { LogRecord } from './log-record.js';
export {
  isInitialised,
  newPassword,
  type PostgresOptions,
  type PostgresServer,
  SUPERUSER,
  startPostgres,
} from './server.js';
