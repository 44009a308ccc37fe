/** Names of pino's levels, the most severe first. */
export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** Reads SLIPWAY_LOG_LEVEL; default: `info`. Throws for an unknown level. */
export function logLevelOf({ SLIPWAY_LOG_LEVEL: level = '' }: Readonly<Record<string, string | undefined>>): string {
  if (level === '') return 'info';
  if (LOG_LEVELS.some((known) => known === level)) return level;
  throw new Error(`SLIPWAY_LOG_LEVEL is ${JSON.stringify(level)}: it must be one of ${LOG_LEVELS.join(', ')}`);
}
