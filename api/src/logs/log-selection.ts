/** The lines of a log that a request selects. */
import { SERVICE_LOG_LEVELS as LEVELS, type ServiceLogLevel } from '@slipway/installation';
import type { ProjectLogLine } from './logs.schema.js';

export interface LogSelection {
  level: ServiceLogLevel;
  /** Milliseconds since 1970. */
  since: number;
  limit: number;
}

/** True if a line has the level or a higher one, and the time or a later one. */
export const isSelected = (line: { level: string; ms: number }, { level, since }: LogSelection): boolean =>
  LEVELS.indexOf(line.level as ServiceLogLevel) >= LEVELS.indexOf(level) && line.ms >= since;

/** Returns the newest lines of the level and time, oldest first. */
export const selectedLines = (lines: readonly ProjectLogLine[], query: LogSelection): ProjectLogLine[] =>
  newestLinesOf(
    lines.filter(({ level, time }) => isSelected({ level, ms: Date.parse(time) }, query)),
    query.limit,
  );

/** Returns the newest lines, oldest first. Lines of one time stay in their order. */
export const newestLinesOf = (lines: readonly ProjectLogLine[], limit: number): ProjectLogLine[] =>
  lines.toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time)).slice(-limit);
