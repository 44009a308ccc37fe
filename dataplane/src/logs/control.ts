/**
 * Control server for the logs of projects.
 *
 * | route | caller | response |
 * | --- | --- | --- |
 * | `GET /<ref>/<service>?level=&since=&limit=` | the API | 200 with an array of lines, or 404 |
 * | `POST /postgres` with an array of lines | the supervisor, about the databases | 204, 400 or 413 |
 */
import type { IncomingMessage, Server } from 'node:http';
import { isStoredLog, SERVICE_LOG_LEVELS, type ServiceLogLevel } from '@slipway/installation';
import {
  type InternalAnswer,
  type InternalPlace,
  type JsonBound,
  JsonRefusal,
  parseJson,
  startInternalServer,
} from '@slipway/program';
import type { Logger } from 'pino';
import { BodyTooLargeError, receiveBody } from '../http/request-body.js';
import type { ProjectLogs } from './project-logs.js';

const MOST_LINES = 1_000;
/** Lines of a request. Each has a ref and six values at most, with their names. */
const MOST_SENT = 100;
const MOST_OF_BODY: JsonBound = { bytes: 1024 * 1024, depth: 3, values: 14 * MOST_SENT };
const MOST_OF_MESSAGE = 1_000;

export const startLogsControl = (place: InternalPlace, logs: ProjectLogs, log: Logger): Promise<Server> =>
  startInternalServer(place, {
    answer: (incoming) => answer(logs, incoming),
    onError: (err) => log.error({ err }, 'request for logs failed'),
  });

async function answer(logs: ProjectLogs, incoming: IncomingMessage): Promise<InternalAnswer> {
  const { pathname, searchParams } = new URL(incoming.url ?? '/', 'http://control');
  if (incoming.method === 'POST' && pathname === '/postgres') return write(logs, incoming);
  const lines = incoming.method === 'GET' ? await linesFor(logs, pathname, searchParams) : undefined;
  return lines ? { status: 200, body: lines } : { status: 404, body: { message: 'no such project or service' } };
}

async function linesFor(logs: ProjectLogs, pathname: string, parameters: URLSearchParams) {
  const [ref = '', service = ''] = pathname.split('/').slice(1);
  if (!isStoredLog(service)) return undefined;
  const level = parameters.get('level');
  return logs.read(ref, service, {
    level: SERVICE_LOG_LEVELS.find((name) => name === level),
    since: Number(parameters.get('since') ?? 0) || 0,
    limit: Math.min(Number(parameters.get('limit') ?? 100) || 100, MOST_LINES),
  });
}

/** A line about a project's database. `left_out`: the number of lines that it replaces. */
interface DatabaseLine {
  ref: string;
  level: ServiceLogLevel;
  message: string;
  code?: string;
  role?: string;
  left_out?: number;
}

async function write(logs: ProjectLogs, incoming: IncomingMessage): Promise<InternalAnswer> {
  let lines: unknown;
  try {
    lines = parseJson(await receiveBody(incoming, MOST_OF_BODY.bytes), MOST_OF_BODY);
  } catch (error) {
    if (error instanceof BodyTooLargeError) return { status: 413, body: { message: error.message } };
    if (error instanceof JsonRefusal) return { status: 400, body: { message: error.message } };
    throw error;
  }
  if (!Array.isArray(lines) || lines.length > MOST_SENT || !lines.every(isDatabaseLine)) {
    return { status: 400, body: { message: `the body must be an array of at most ${MOST_SENT} lines` } };
  }
  for (const { ref, level, message, code, role, left_out } of lines) {
    if (left_out !== undefined) logs.leftOut(ref, 'postgres', left_out);
    else {
      logs.write(ref, 'postgres', { level, message: message.slice(0, MOST_OF_MESSAGE), facts: { code, role } });
    }
  }
  return { status: 204 };
}

function isDatabaseLine(value: unknown): value is DatabaseLine {
  if (typeof value !== 'object' || value === null) return false;
  const { ref, level, message, code, role, left_out } = value as Record<string, unknown>;
  return (
    typeof ref === 'string' &&
    SERVICE_LOG_LEVELS.some((name) => name === level) &&
    typeof message === 'string' &&
    ['string', 'undefined'].includes(typeof code) &&
    ['string', 'undefined'].includes(typeof role) &&
    (left_out === undefined || (Number.isSafeInteger(left_out) && (left_out as number) > 0))
  );
}
