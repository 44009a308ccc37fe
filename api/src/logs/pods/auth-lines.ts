/**
 * Decodes what auth's own pods have written. In: a line. Out: the line for the project's owner. The other lines are for
 * administrators.
 */
import { FOR_OWNER, LAST_TIME, SERVICE_LOG_LEVELS } from '@slipway/installation';
import { type JsonBound, parseJson } from '@slipway/program';
import type { ProjectLogLine } from '../logs.schema.js';

const MARK = JSON.stringify(FOR_OWNER).slice(1, -1);
const MOST_OF_LINE: JsonBound = { bytes: 16 * 1024, depth: 3, values: 100 };
/** Members of each line that pino writes, and of the service. They say nothing to an owner. */
const OURS = ['level', 'time', 'pid', 'hostname', 'name', 'msg', ...Object.keys(FOR_OWNER)];
/** Numbers that pino writes for levels: https://getpino.io/#/docs/api?id=loggerlevels-object. */
const LEVELS: Readonly<Record<number, (typeof SERVICE_LOG_LEVELS)[number]>> = { 30: 'info', 40: 'warn', 50: 'error' };

export function authLineOf(text: string): ProjectLogLine | undefined {
  if (!text.includes(MARK)) return undefined;
  const value = decoded(text);
  if (!value || value.for !== FOR_OWNER.for) return undefined;
  const { level, time, msg } = value;
  const named = typeof level === 'number' ? LEVELS[level] : undefined;
  if (!named || typeof msg !== 'string' || !isTime(time)) return undefined;
  const facts = Object.entries(value).filter(
    ([name, fact]) => !OURS.includes(name) && (typeof fact === 'string' || typeof fact === 'number'),
  );
  return {
    ...Object.fromEntries(facts),
    time: new Date(time).toISOString(),
    level: named,
    message: msg,
  } as ProjectLogLine;
}

const isTime = (time: unknown): time is number => typeof time === 'number' && time >= 0 && time <= LAST_TIME;

/** Undefined: the line is no object of JSON, such as one of another program. */
function decoded(text: string): Record<string, unknown> | undefined {
  try {
    const value = parseJson(text, MOST_OF_LINE);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
