/**
 * Decodes the server's log messages, which the logging collector writes as JSON
 * (https://www.postgresql.org/docs/18/runtime-config-logging.html). In: one line. Out: a record, and its text.
 */

export interface LogRecord {
  /** `2026-01-05 10:00:00.000 UTC`. */
  timestamp: string;
  /** Id of the process that logged the message. */
  pid: number;
  severity: string;
  message: string;
  /** SQLSTATE. */
  code?: string;
  /** Role of the session. A client that is not authenticated yet can name any. */
  user?: string;
  /** Database of the session. A client that is not authenticated yet can name any. */
  database?: string;
  /** The `application_name` of the session, which its client names. */
  application?: string;
  detail?: string;
  hint?: string;
  internalQuery?: string;
  context?: string;
  statement?: string;
  /** Position of the error in `statement` or `internalQuery`. */
  position?: number;
}

/** The server writes these members first and in this order. Each name has at most 63 bytes. */
const HEAD = /^\{"timestamp":"[^"]*"(?:,"user":"(?:[^"\\]|\\.)*")?,"dbname":"((?:[^"\\]|\\.)*)"/;
const HEAD_BYTES = 2_048;
/** A value cannot contain this text, because the server escapes each quotation mark in it. */
const FATAL = ',"error_severity":"FATAL"';

/**
 * Returns the database of an encoded record, with the escapes of JSON, and whether the message ended the session.
 * Undefined: the record has no database.
 */
export function headOf(line: Buffer): { database: string; isFatal: boolean } | undefined {
  const text = line.toString('utf8', 0, HEAD_BYTES);
  const database = HEAD.exec(text)?.[1];
  return database === undefined ? undefined : { database, isFatal: text.includes(FATAL) };
}

const MEMBERS: Readonly<Record<keyof LogRecord, readonly [name: string, type: 'string' | 'number']>> = {
  timestamp: ['timestamp', 'string'],
  pid: ['pid', 'number'],
  severity: ['error_severity', 'string'],
  message: ['message', 'string'],
  code: ['state_code', 'string'],
  user: ['user', 'string'],
  database: ['dbname', 'string'],
  application: ['application_name', 'string'],
  detail: ['detail', 'string'],
  hint: ['hint', 'string'],
  internalQuery: ['internal_query', 'string'],
  context: ['context', 'string'],
  statement: ['statement', 'string'],
  position: ['cursor_position', 'number'],
};
const NOTHING = { timestamp: '', pid: 0, severity: 'LOG', message: '' };
/** The text cannot be part of a value, in which the server escapes each quotation mark. */
const BEFORE_MESSAGE = ',"message":"';

/** Decodes a record. `bytes`: its size. If that is larger than the line, the record has no message. */
export function recordOf(line: Buffer, bytes: number): LogRecord | undefined {
  const isCut = bytes > line.length;
  const text = line.toString();
  const values = valuesIn(isCut ? `${text.slice(0, text.indexOf(BEFORE_MESSAGE))}}` : text);
  if (!values) return undefined;
  const members = Object.entries(MEMBERS).flatMap(([member, [name, type]]) =>
    typeof values[name] === type ? [[member, values[name]]] : [],
  );
  const cut = isCut && { message: `(a message of ${bytes} bytes)` };
  return { ...NOTHING, ...Object.fromEntries(members), ...cut };
}

/** Undefined: the text is no object of JSON. */
function valuesIn(text: string): Record<string, unknown> | undefined {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Returns the text of a record as the server writes it to its standard error. */
export function textOf(record: LogRecord): string[] {
  const { timestamp, pid, severity, message, detail, hint, internalQuery, context, statement, position } = record;
  const place = position === undefined ? '' : ` at character ${position}`;
  const parts: [string, string | undefined][] = [
    [severity, `${message}${place}`],
    ['DETAIL', detail],
    ['HINT', hint],
    ['QUERY', internalQuery],
    ['CONTEXT', context],
    ['STATEMENT', statement],
  ];
  return parts.flatMap(([title, text]) =>
    text === undefined ? [] : `${timestamp} [${pid}] ${title}:  ${text.replaceAll('\n', '\n\t')}`.split('\n'),
  );
}

/** True for lines by which a server announces its logging collector. */
export const isAnnouncement = (line: string): boolean =>
  ANNOUNCEMENTS.some((text) => line.replace(PREFIX, '').startsWith(text));
const PREFIX = /^[\d-]+ [\d:.]+ UTC \[\d+\] /;
const ANNOUNCEMENTS = [
  'LOG:  ending log output to stderr',
  'LOG:  redirecting log output to logging collector process',
  'HINT:  Future log output will ',
];
