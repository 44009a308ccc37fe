/** Returns a line in pino's format, for logs of this package's threads. It contains no data of requests. */
export const logLine = (level: 'warn' | 'fatal', program: string, fields: object, message: string): string =>
  `${JSON.stringify({ level: LEVELS[level], time: Date.now(), pid: process.pid, program, ...fields, msg: message })}\n`;

/** Numbers of pino's levels: https://github.com/pinojs/pino/blob/main/docs/api.md#loggerlevels-object */
const LEVELS = { warn: 40, fatal: 60 };
