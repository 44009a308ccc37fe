/**
 * Reads the log of one unit from a machine's journal over SSH. In: the machine's SSH client, a unit and a query. Out:
 * lines, newest last. The output of the machine is limited in bytes and time, and is trusted in nothing else.
 */
import { isUtf8 } from 'node:buffer';
import { type MachineUnit, systemdUnitOf } from '@slipway/crds';
import {
  UNIT_LOG_BYTES,
  UNIT_LOG_LEVELS,
  type UnitLogLevel,
  type UnitLogLine,
  type UnitLogQuery,
} from '@slipway/installation';
import { type JsonBound, parseJson, runInTurns, type Steps } from '@slipway/program';
import { type JournalEntry, unitLines } from './log-text.js';
import type { CommandRunner } from './units.js';

const READ_MS = 10_000;
/** Bytes of the journal's entries, each of which has about 400 besides its message. */
const MOST_READ = 4 * 1024 * 1024;
/** Entries that are read for a level, and in addition to the limit: a message of Postgres may have many lines. */
const MOST_ENTRIES = 10_000;
const MORE_ENTRIES = 500;
/** An entry of the journal. A line that is not text is an array of numbers there. */
const ENTRY: JsonBound = { bytes: 512 * 1024, depth: 4, values: 10_000 };

export async function readUnitLog(
  machine: CommandRunner,
  unit: MachineUnit,
  query: UnitLogQuery,
  signal: AbortSignal,
): Promise<UnitLogLine[]> {
  // The timeout of a command does not include the connection.
  const ends = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
  const options = { timeoutMs: READ_MS, mostBytes: MOST_READ, isCut: true };
  const { stdout } = await machine.run(['journalctl', ...journalArguments(unit, query)], options, ends);
  const entries = await runInTurns(entrySteps(stdout));
  return chosen(unitLines(unit, entries), query);
}

/**
 * Newest first, so that a cut loses the oldest. journald sets `_SYSTEMD_UNIT` itself, by the control group: no process
 * of another unit can set it.
 */
export function journalArguments(unit: MachineUnit, { limit, since, level }: UnitLogQuery): string[] {
  const entries = level === undefined || level === 'debug' ? limit + MORE_ENTRIES : MOST_ENTRIES;
  return [
    '--no-pager',
    '--quiet',
    '--all',
    '--reverse',
    '--output=json',
    '--output-fields=MESSAGE,PRIORITY',
    `--lines=${entries}`,
    ...(since === undefined ? [] : [`--since=@${Math.floor(since / 1000)}`]),
    `_SYSTEMD_UNIT=${systemdUnitOf(unit)}.service`,
  ];
}

/** Returns the entries, oldest first. The last line of a cut output is not complete, and is dropped. */
export function* entrySteps(output: string): Steps<JournalEntry[]> {
  const entries: JournalEntry[] = [];
  let start = 0;
  for (let end = output.indexOf('\n'); end >= 0; end = output.indexOf('\n', start)) {
    const entry = entryOf(output.slice(start, end));
    if (entry) entries.push(entry);
    start = end + 1;
    yield;
  }
  return entries.reverse();
}

/** Returns undefined for a line that is no entry. */
function entryOf(line: string): JournalEntry | undefined {
  let fields: Record<string, unknown>;
  try {
    fields = Object(parseJson(line, ENTRY)) as Record<string, unknown>;
  } catch {
    return undefined;
  }
  const micros = String(fields.__REALTIME_TIMESTAMP);
  const message = textOf(fields.MESSAGE);
  // Sixteen digits last until the year 2286.
  if (!/^\d{1,16}$/.test(micros) || message === undefined) return undefined;
  const priority = /^[0-7]$/.test(String(fields.PRIORITY)) ? Number(fields.PRIORITY) : 6;
  return { time: Math.floor(Number(micros) / 1000), priority, message };
}

function textOf(message: unknown): string | undefined {
  if (typeof message === 'string') return message;
  if (!Array.isArray(message) || !message.every((byte) => Number.isInteger(byte))) return undefined;
  const bytes = Buffer.from(message as number[]);
  return isUtf8(bytes) ? bytes.toString() : bytes.toString('latin1');
}

const severity = (level: UnitLogLevel): number => UNIT_LOG_LEVELS.indexOf(level);

/** Returns the newest lines of the query that fit into a response. */
function chosen(lines: readonly UnitLogLine[], { limit, since = 0, level = 'debug' }: UnitLogQuery): UnitLogLine[] {
  const newest: UnitLogLine[] = [];
  // The brackets, and a comma for each line.
  let bytes = 2;
  for (const line of lines.toReversed()) {
    if (newest.length === limit) break;
    if (severity(line.level) < severity(level) || Date.parse(line.time) < since) continue;
    bytes += Buffer.byteLength(JSON.stringify(line)) + 1;
    if (bytes > UNIT_LOG_BYTES) break;
    newest.push(line);
  }
  return newest.reverse();
}
