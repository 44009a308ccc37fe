/**
 * The embedded Postgres: finds the binaries that npm installed, makes a cluster, starts and stops it. In: a folder and
 * a port. Out: a running server. Used by the one-machine program, and by tests through `./testing.js`.
 */
export { postgresAccount } from './account.js';
export { installedBinaries } from './binaries.js';
export { type HostilePostgres, type PasswordQuestion, startHostilePostgres } from './hostile.js';
export { endLeftover } from './leftover.js';
export {
  isInitialised,
  newPassword,
  type PostgresOptions,
  type PostgresServer,
  SUPERUSER,
  startPostgres,
} from './server.js';
export { freePort, startTestPostgres, type TestPostgres } from './testing.js';
