/**
 * Lines about a project's services for its owner. Services and the gateway write them; `project-logs.ts` stores them.
 */
import type { ProjectService } from '@slipway/crds';

export const LEVELS = ['info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];

/** Services whose lines are stored here. Functions have logs of their own. */
export const LOGGED_SERVICES = ['auth', 'rest', 'realtime', 'storage'] as const satisfies readonly ProjectService[];
export type LoggedService = (typeof LOGGED_SERVICES)[number];

export const isLogged = (service: string): service is LoggedService =>
  (LOGGED_SERVICES as readonly string[]).includes(service);

/**
 * Facts of a line. The owner reads them, so none may be a secret, a query, a header, a body, or text of an error that
 * has paths or addresses of the platform.
 */
export type Facts = Readonly<Record<string, string | number | undefined>>;

export interface Written {
  level: Level;
  /** Words of ours, without values. */
  message: string;
  facts?: Facts;
}

export interface OwnerLog {
  /** Never throws, and does not wait. Lines of a project above a rate are counted instead. */
  write(ref: string, service: LoggedService, line: Written): void;
}
