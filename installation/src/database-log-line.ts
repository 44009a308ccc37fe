/**
 * Lines about a project's database as its owner reads them. In: a message of the server, whose text a tenant or a
 * client may have chosen. Out: a line without secrets, statements or messages of the platform's own sessions. Pure.
 */
import { printable, withoutSecrets, withoutStatement } from './log-text.js';
import { databaseIdIn, databaseOf, QUERY_APPLICATION, REPLICATION_ROLE } from './names.js';
import type { ServiceLogLevel } from './service-logs.js';

export interface DatabaseMessage {
  /** Database and role of the session. A client that is not authenticated yet can name any. */
  database?: string | undefined;
  user?: string | undefined;
  severity: string;
  message: string;
  /** SQLSTATE. */
  code?: string | undefined;
  /** The `application_name` of the session, which its client names. */
  application?: string | undefined;
}

export interface DatabaseLine {
  /** Id of the database. */
  id: string;
  level: ServiceLogLevel;
  message: string;
  code?: string;
  role?: string;
}

/** Characters that are searched for secrets, and characters of a message. A cut secret is not recognized. */
const MOST_SEARCHED = 8 * 1024;
const MOST_OF_MESSAGE = 1_000;
const MOST_OF_NAME = 100;

const LEVELS: Readonly<Record<string, ServiceLogLevel>> = {
  WARNING: 'warn',
  ERROR: 'error',
  FATAL: 'error',
  PANIC: 'error',
};
export const databaseLevelOf = (severity: string): ServiceLogLevel => LEVELS[severity] ?? 'info';

/** Roles of the platform, whose messages are not about requests of a project's owner: the superuser, and realtime's. */
const PLATFORM_ROLES: readonly (string | undefined)[] = ['slipway', REPLICATION_ROLE];

/** Returns the id of a database that may be a project's. A client can name any database, so the name is not trusted. */
export const projectDatabaseIdIn = (database = ''): string | undefined =>
  database.startsWith(databaseOf('')) && ID.test(databaseIdIn(database)) ? databaseIdIn(database) : undefined;
const ID = /^[a-z0-9_-]{1,63}$/;

/** `/query` first sends each request as one statement. If that fails with this message, it sends several statements. */
const isFirstTry = ({ application, message }: DatabaseMessage): boolean =>
  application === QUERY_APPLICATION && message === 'cannot insert multiple commands into a prepared statement';

/** Returns undefined for a message that is not for an owner. */
export function databaseLineOf(record: DatabaseMessage): DatabaseLine | undefined {
  const { database, user, severity, message, code } = record;
  const id = projectDatabaseIdIn(database);
  if (id === undefined || PLATFORM_ROLES.includes(user) || isFirstTry(record)) return undefined;
  const text = severity === 'LOG' ? withoutStatement(message.slice(0, MOST_SEARCHED)) : message;
  return {
    id,
    level: databaseLevelOf(severity),
    message: withoutSecrets(printable(text.slice(0, MOST_SEARCHED))).slice(0, MOST_OF_MESSAGE),
    ...(code && { code }),
    ...(user && { role: printable(user).slice(0, MOST_OF_NAME) }),
  };
}
