/**
 * Decodes what a Postgres server on a cluster has written: with the prefix POSTGRES_LOG_PREFIX, or as CloudNativePG's
 * records. In: lines of all databases of a server. Out: lines of one database for the project's owner.
 *
 * The server indents the further lines of a message, so no message looks like a record. A client can name any database
 * and role before it is authenticated, but only programs of the platform can connect to these servers.
 */
import { type DatabaseMessage, databaseLineOf, databaseOf } from '@slipway/installation';
import { type JsonBound, parseJson } from '@slipway/program';
import type { ProjectLogLine } from '../logs.schema.js';

interface Message extends DatabaseMessage {
  /** `2026-01-05 10:00:00.000 UTC`. */
  timestamp: string;
}

const PREFIX = /^([\d-]{10} [\d:.]{12} UTC) \[\d+\] ([0-9A-Z]{5}) (\S+) (\S+) "(.*?)" /;
const RECORD = new RegExp(`${PREFIX.source}(LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):  (.*)$`);
/** The server writes the place of an error behind its message. */
const POSITION = / at character \d+$/;
const CONTINUED = '\t';
const MOST_OF_RECORD: JsonBound = { bytes: 64 * 1024, depth: 4, values: 200 };

/** `id`: that of the database. */
export function postgresLinesOf(lines: readonly string[], id: string): ProjectLogLine[] {
  const messages: Message[] = [];
  /** The message to which indented lines belong. */
  let current: Message | undefined;
  for (const line of lines) {
    if (line.startsWith(CONTINUED)) {
      if (current) current.message += `\n${line.slice(CONTINUED.length)}`;
      continue;
    }
    // Most lines of a shared server are of other databases.
    current = line.includes(databaseOf(id)) ? messageOf(line) : undefined;
    if (current) messages.push(current);
  }
  return messages.flatMap((message) => lineOf(message, id));
}

function lineOf(message: Message, id: string): ProjectLogLine[] {
  const line = databaseLineOf({ ...message, message: message.message.replace(POSITION, '') });
  const time = Date.parse(message.timestamp.replace(' ', 'T').replace(' UTC', 'Z'));
  if (line?.id !== id || Number.isNaN(time)) return [];
  const { id: _, ...shown } = line;
  return [{ time: new Date(time).toISOString(), ...shown }];
}

const messageOf = (line: string): Message | undefined => (line.startsWith('{') ? recordIn(line) : prefixedIn(line));

function prefixedIn(line: string): Message | undefined {
  const [, timestamp, code, database, user, application, severity, message] = RECORD.exec(line) ?? [];
  if (timestamp === undefined || severity === undefined || message === undefined) return undefined;
  // Messages without an error have this code.
  return { timestamp, code: code === '00000' ? undefined : code, database, user, application, severity, message };
}

/** https://cloudnative-pg.io/documentation/current/logging/ */
function recordIn(line: string): Message | undefined {
  try {
    const { logger, record } = parseJson(line, MOST_OF_RECORD) as {
      logger?: unknown;
      record?: Record<string, unknown>;
    };
    if (logger !== 'postgres' || !record) return undefined;
    const text = (name: string) => (typeof record[name] === 'string' ? record[name] : '');
    const code = text('sql_state_code');
    return {
      timestamp: text('log_time'),
      code: code === '00000' ? undefined : code,
      database: text('database_name'),
      user: text('user_name'),
      application: text('application_name'),
      severity: text('error_severity'),
      message: text('message'),
    };
  } catch {
    return undefined;
  }
}
