/**
 * The lines of a unit's log as its project's owner sees them. In: entries of the journal, oldest first. Their
 * content is not trusted: the tenant's SQL and requests are in them, and the tenant may control the whole machine. Out:
 * level and message without secrets. Pure, and linear in the length of the text.
 */
import type { MachineUnit } from '@slipway/crds';
import {
  printable,
  REDACTED,
  type UnitLogLevel,
  type UnitLogLine,
  withoutSecrets,
  withoutStatement,
} from '@slipway/installation';
import { type JsonBound, parseJson } from '@slipway/program';

/** One entry of the journal. */
export interface JournalEntry {
  /** Milliseconds since 1970. */
  time: number;
  /** Syslog's priority: 0 is the most severe, 7 the least. */
  priority: number;
  message: string;
}

/** Characters of a message. The API shows less, but must find a secret that is at the end. */
const MOST_OF_MESSAGE = 8 * 1024;
const LINE: JsonBound = { bytes: 64 * 1024, depth: 20, values: 1_000 };

export const unitLines = (unit: MachineUnit, entries: readonly JournalEntry[]): UnitLogLine[] =>
  unit === 'postgres' ? postgresLines(entries) : entries.map((entry) => lineOf(unit, entry));

function lineOf(unit: MachineUnit, entry: JournalEntry): UnitLogLine {
  const { level, message } = (unit === 'nginx' ? fromNginx(entry) : fromPino(entry)) ?? plain(entry);
  return shown(entry.time, level, message);
}

const shown = (time: number, level: UnitLogLevel, message: string): UnitLogLine => ({
  time: new Date(time).toISOString(),
  level,
  message: withoutSecrets(printable(message.slice(0, MOST_OF_MESSAGE))),
});

type Read = Pick<UnitLogLine, 'level' | 'message'>;

function plain({ priority, message }: JournalEntry): Read {
  if (priority <= 3) return { level: 'error', message };
  if (priority === 4) return { level: 'warn', message };
  return { level: priority >= 7 ? 'debug' : 'info', message };
}

/** Members that every line of a service has. */
const COMMON = new Set(['level', 'time', 'pid', 'hostname', 'msg']);

/** Returns undefined for a line that is not pino's, such as the stack of an exception that ended the process. */
function fromPino({ message }: JournalEntry): Read | undefined {
  if (!message.startsWith('{')) return undefined;
  let line: Record<string, unknown>;
  try {
    line = parseJson(message, LINE) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const { level, msg } = line;
  if (typeof level !== 'number' || typeof msg !== 'string') return undefined;
  const fields = Object.entries(line)
    .filter(([name]) => !COMMON.has(name))
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return { level: levelOfPino(level), message: [msg, ...fields].join(' ') };
}

function levelOfPino(level: number): UnitLogLevel {
  if (level >= 50) return 'error';
  if (level >= 40) return 'warn';
  return level >= 30 ? 'info' : 'debug';
}

const NGINX = /^\d{4}\/\d\d\/\d\d \d\d:\d\d:\d\d \[(\w{1,10})\] /;
const NGINX_LEVELS: Readonly<Record<string, UnitLogLevel>> = {
  debug: 'debug',
  info: 'info',
  notice: 'info',
  warn: 'warn',
};

/** The rest of a request's address after `?` may be a key, and clients also send it in the referrer. */
function fromNginx({ message }: JournalEntry): Read | undefined {
  const [start, name = ''] = NGINX.exec(message) ?? [];
  if (start === undefined) return undefined;
  const text = message.slice(start.length).replaceAll(/\?[^\s"]*/g, `?${REDACTED}`);
  return { level: NGINX_LEVELS[name] ?? 'error', message: text };
}

const POSTGRES = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ UTC \[\d{1,10}\] ([A-Z]{3,9}\d?): {1,2}/;
const POSTGRES_LEVELS: Readonly<Record<string, UnitLogLevel>> = {
  LOG: 'info',
  INFO: 'info',
  NOTICE: 'info',
  HINT: 'info',
  WARNING: 'warn',
  ERROR: 'error',
  FATAL: 'error',
  PANIC: 'error',
};
/** A statement may set a password, and details quote rows. */
const HIDDEN = new Set(['STATEMENT', 'QUERY', 'DETAIL', 'CONTEXT', 'LOCATION', 'BACKTRACE']);
/**
 * A line without a prefix continues the one before it. The first ones are dropped: they may be of a statement whose
 * beginning was not read. A hint has the level of its message.
 */
function postgresLines(entries: readonly JournalEntry[]): UnitLogLine[] {
  const found: { time: number; level: UnitLogLevel; parts: string[] }[] = [];
  let isHidden = true;
  let level: UnitLogLevel = 'info';
  for (const { time, message } of entries) {
    const [start, name = ''] = POSTGRES.exec(message) ?? [];
    if (start === undefined) {
      if (!isHidden) found.at(-1)?.parts.push(message.replace(/^\t/, ''));
      continue;
    }
    isHidden = HIDDEN.has(name);
    if (isHidden) continue;
    if (name !== 'HINT') level = POSTGRES_LEVELS[name] ?? (name.startsWith('DEBUG') ? 'debug' : 'info');
    found.push({ time, level, parts: [`${name}: ${message.slice(start.length)}`] });
  }
  return found.map(({ time, level: severity, parts }) => shown(time, severity, redacted(parts.join('\n'))));
}

const redacted = (message: string): string =>
  message.startsWith('LOG: ') ? `LOG: ${withoutStatement(message.slice(5))}` : message;
