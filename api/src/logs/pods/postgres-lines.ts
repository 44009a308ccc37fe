/**
 * Decodes what a Postgres server on a cluster has written: records of its logging collector, or CloudNativePG's. In:
 * lines of all databases of a server. Out: lines of one database for the project's owner.
 *
 * Each record is one line of JSON, in which the server escapes each quotation mark and line break of a message. So no
 * text of a client looks like a record, also if a line is cut or has parts of two records.
 */
import { type DatabaseMessage, databaseLevelOf, databaseLineOf, databaseOf } from '@slipway/installation';
import { type JsonBound, parseJson } from '@slipway/program';
import { isSelected, type LogSelection } from '../log-selection.js';
import type { ProjectLogLine } from '../logs.schema.js';

interface Message extends DatabaseMessage {
  /** Milliseconds since 1970. */
  ms: number;
}

const MOST_OF_RECORD: JsonBound = { bytes: 64 * 1024, depth: 4, values: 200 };

/** Returns the newest lines, oldest first. `id`: that of the database. */
export function postgresLinesOf(lines: readonly string[], id: string, query: LogSelection): ProjectLogLine[] {
  const database = databaseOf(id);
  // Most lines of a shared server are of other databases.
  const named = JSON.stringify(database);
  const messages = lines
    .flatMap((line) => (line.includes(named) ? (messageOf(line) ?? []) : []))
    .filter((message) => message.database === database && isSelected(levelAndTime(message), query))
    .toSorted((a, b) => a.ms - b.ms);
  const found: ProjectLogLine[] = [];
  // The search for secrets takes most of the time, so it ends with the last line that is returned.
  for (let at = messages.length - 1; at >= 0 && found.length < query.limit; at -= 1) {
    const line = lineOf(messages[at] as Message);
    if (line) found.push(line);
  }
  return found.reverse();
}

const levelAndTime = ({ severity, ms }: Message) => ({ level: databaseLevelOf(severity), ms });

function lineOf({ ms, ...message }: Message): ProjectLogLine | undefined {
  const line = databaseLineOf(message);
  if (!line) return undefined;
  const { id: _, ...shown } = line;
  return { time: new Date(ms).toISOString(), ...shown };
}

/** Undefined: the line is no record, or one that is too large. */
function messageOf(line: string): Message | undefined {
  if (!line.startsWith('{')) return undefined;
  try {
    const value = parseJson(line, MOST_OF_RECORD) as Record<string, unknown>;
    return value.logger === undefined ? ofCollector(value) : ofCloudNativePg(value);
  } catch {
    return undefined;
  }
}

/** https://www.postgresql.org/docs/18/runtime-config-logging.html#RUNTIME-CONFIG-LOGGING-JSONLOG */
const ofCollector = (record: Record<string, unknown>): Message | undefined =>
  decoded(record, ['timestamp', 'dbname', 'user', 'state_code']);

/** https://cloudnative-pg.io/documentation/current/logging/ */
function ofCloudNativePg({ logger, record }: Record<string, unknown>): Message | undefined {
  if (logger !== 'postgres' || typeof record !== 'object' || record === null) return undefined;
  return decoded(record as Record<string, unknown>, ['log_time', 'database_name', 'user_name', 'sql_state_code']);
}

/** `names`: members that have other names in the two formats. A time is `2026-01-05 10:00:00.000 UTC`. */
function decoded(record: Record<string, unknown>, names: [string, string, string, string]): Message | undefined {
  const text = (name: string) => (typeof record[name] === 'string' ? record[name] : '');
  const [time, database, user, code] = names.map(text) as typeof names;
  const ms = Date.parse(time.replace(' ', 'T').replace(' UTC', 'Z'));
  if (Number.isNaN(ms)) return undefined;
  return {
    ms,
    database,
    user,
    // Messages without an error have this code in CloudNativePG's records.
    code: code === '00000' ? undefined : code,
    application: text('application_name'),
    severity: text('error_severity'),
    message: text('message'),
  };
}
