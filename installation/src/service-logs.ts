/**
 * The logs of a project's services, which the data plane stores and the API serves to the project's owner: levels and
 * services.
 */

/** From the least to the most severe. */
export const SERVICE_LOG_LEVELS = ['info', 'warn', 'error'] as const;
export type ServiceLogLevel = (typeof SERVICE_LOG_LEVELS)[number];

/** Services whose lines the data plane stores. Functions have logs of their own. */
export const STORED_LOGS = ['auth', 'rest', 'realtime', 'storage', 'postgres'] as const;
export type StoredLog = (typeof STORED_LOGS)[number];

export const isStoredLog = (service: string): service is StoredLog =>
  (STORED_LOGS as readonly string[]).includes(service);

/** Services whose log an owner reads. */
export const LOGGED_SERVICES = [...STORED_LOGS, 'functions'] as const;
export type LoggedService = (typeof LOGGED_SERVICES)[number];

/** Member of a line that auth's own pod writes for the project's owner. Its other lines are for administrators. */
export const FOR_OWNER = { for: 'owner' } as const;
