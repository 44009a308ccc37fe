/** The lines of a log that a request selects. */
import { SERVICE_LOG_LEVELS as LEVELS, type ServiceLogLevel } from '@slipway/installation';
import type { ProjectLogLine } from './logs.schema.js';

export interface LogSelection {
  level: ServiceLogLevel;
  /** Milliseconds since 1970. */
  since: number;
  limit: number;
}

/** Returns the newest lines of the level and time, oldest first. */
export function selectedLines(
  lines: readonly ProjectLogLine[],
  { level, since, limit }: LogSelection,
): ProjectLogLine[] {
  const least = LEVELS.indexOf(level);
  const isSelected = (line: ProjectLogLine) =>
    LEVELS.indexOf(line.level as ServiceLogLevel) >= least && Date.parse(line.time) >= since;
  return newestLinesOf(lines.filter(isSelected), limit);
}

/** Returns the newest lines, oldest first. Lines of one time stay in their order. */
export const newestLinesOf = (lines: readonly ProjectLogLine[], limit: number): ProjectLogLine[] =>
  lines.toSorted((a, b) => Date.parse(a.time) - Date.parse(b.time)).slice(-limit);
