/**
 * Frees idle connections of other pools of this process when their Postgres accepts no more. In: pools as they open and
 * end. A server that many projects share is sized for fewer connections than all of them could open.
 */
import type { Login } from '../tenant.js';
import { ConnectionError } from './errors.js';

export interface Holder {
  readonly login: Login;
  /** Closes connections that nobody uses now and that need not be kept. */
  giveWay(): void;
}

/** `too_many_connections`, of the server, of a database or of a role: which of them only the message says. */
const TOO_MANY_CONNECTIONS = '53300';

const holders = new Set<Holder>();

export const holds = (holder: Holder) => holders.add(holder);
export const holdsNoMore = (holder: Holder) => holders.delete(holder);

export const isFull = (error: unknown) => causeOf(error)?.code === TOO_MANY_CONNECTIONS;

/**
 * Those give way that were counted: a limit that a project sets for its own database must not cost others their
 * connections.
 */
export function makeRoom({ host, port, database, user }: Login, full: unknown): void {
  const { message = '' } = causeOf(full) ?? {};
  const isCounted = (login: Login) => {
    if (login.host !== host || login.port !== port) return false;
    if (message.includes('for role')) return login.user === user;
    return !message.includes('for database') || login.database === database;
  };
  for (const holder of holders) if (isCounted(holder.login)) holder.giveWay();
}

const causeOf = (error: unknown) =>
  error instanceof ConnectionError ? (error.cause as { code?: string; message?: string } | undefined) : undefined;
