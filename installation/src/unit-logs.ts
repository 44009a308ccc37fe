/**
 * The log of one unit of a dedicated project's machine, as the operator serves it to the API at a Unix socket:
 * `GET /<unit>?limit=…&since=…&level=…`. In: a request. Out: its path, and the limits of both sides.
 */
import type { MachineUnit } from '@slipway/crds';

/** From the least to the most severe. */
export const UNIT_LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type UnitLogLevel = (typeof UNIT_LOG_LEVELS)[number];

export interface UnitLogLine {
  /** In ISO 8601. */
  time: string;
  level: UnitLogLevel;
  message: string;
}

export interface UnitLogQuery {
  /** Maximum number of lines. The newest ones are returned. */
  limit: number;
  /** Milliseconds since 1970: no line is older. */
  since?: number | undefined;
  /** No line is less severe. */
  level?: UnitLogLevel | undefined;
}

export const UNIT_LOG_LINES = { usual: 100, most: 1_000 };
/** Maximum bytes of the operator's response. The API redacts and shortens the lines, so its limits are lower. */
export const UNIT_LOG_BYTES = 2 * 1024 * 1024;
/** The last millisecond of the year 9999. */
export const LAST_TIME = 253_402_300_799_999;

/** `host`: that of the project's database, a folder of sockets which lead to the machine. */
export const machineLogsSocket = (host: string): string => `${host}/logs.sock`;

export function unitLogPath(unit: MachineUnit, { limit, since, level }: UnitLogQuery): string {
  const query = new URLSearchParams({ limit: String(limit) });
  if (since !== undefined) query.set('since', String(since));
  if (level !== undefined) query.set('level', level);
  return `/${unit}?${query}`;
}
