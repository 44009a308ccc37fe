/**
 * The schema `realtime` as numbered migrations, forward only. The group of owners owns it, so that a project's owner
 * can put policies on `realtime.messages`. New projects get it from the template. In older databases the data plane
 * runs the migrations as the project's owner, so never with more rights than the tenant has.
 */
import { migrateOwned } from '../apply-migrations.js';
import type { Migration } from '../auth/index.js';
import type { Session } from '../session.js';
import { messages } from './0001-messages.js';
import { functions } from './0002-functions.js';

export const realtimeMigrations: readonly Migration[] = [
  { version: 'slipway-0001-messages', sql: messages },
  { version: 'slipway-0002-functions', sql: functions },
];

export const migrateRealtime = (session: Session): Promise<void> =>
  migrateOwned(session, { name: 'realtime', migrations: realtimeMigrations });
