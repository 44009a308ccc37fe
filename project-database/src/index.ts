export { authMigrations, authMigrationsTable, type Migration } from './auth/index.js';
