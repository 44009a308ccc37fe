/**
 * Shares the connections of one Postgres among the pools of this process. In: pools. A shared server has fewer
 * connections than all projects could open. When the server rejects a connection of all projects or of one account,
 * their pools close idle connections.
 */

import { isOfSameAccount } from './account-shares.js';
import { ConnectionError } from './errors.js';
import type { Login } from './login.js';

export interface Holder {
  readonly login: Login;
  /** Closes idle connections that are not needed. */
  giveWay(): void;
}

/**
 * SQLSTATE `too_many_connections`: the limit of the server, of a database or of a role. Only the message says which.
 */
const TOO_MANY_CONNECTIONS = '53300';

const holders = new Set<Holder>();

export const holds = (holder: Holder) => holders.add(holder);
export const holdsNoMore = (holder: Holder) => holders.delete(holder);

export const isFull = (error: unknown) => causeOf(error)?.code === TOO_MANY_CONNECTIONS;

/**
 * Closes only connections that count against the same limit, because a limit that a project sets for its own database
 * must not cost others their connections.
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

export function makeRoomInAccount(login: Login): void {
  for (const holder of holders) if (isOfSameAccount(holder.login, login)) holder.giveWay();
}

const causeOf = (error: unknown) =>
  error instanceof ConnectionError ? (error.cause as { code?: string; message?: string } | undefined) : undefined;
