/**
 * Lines about a project's services for its owner. Services and the gateway write them; `project-logs.ts` stores them.
 */
import type { ServiceLogLevel, StoredLog } from '@slipway/installation';
import type { Logger } from 'pino';

/**
 * Facts of a line. The owner reads them, so none may be a secret, a query, a header, a body, or text of an error that
 * has paths or addresses of the platform.
 */
export type Facts = Readonly<Record<string, string | number | undefined>>;

export interface Written {
  level: ServiceLogLevel;
  /** Words of ours without values, or a redacted message of Postgres. */
  message: string;
  facts?: Facts;
}

export interface OwnerLog {
  /** Never throws, and does not wait. Lines of a project above a rate are counted instead. */
  write(ref: string, service: StoredLog, line: Written): void;
}

/** Writes lines to the log of a program that serves one project alone. */
export const ownerLogTo = (log: Logger): OwnerLog => ({
  write: (_ref, _service, { level, message, facts }) => log[level](facts ?? {}, message),
});
