/**
 * How a platform's addresses are reached from the process of a test. In: what the API answered. Used by every client in
 * the tests.
 */
import { databaseIdIn } from '@slipway/crds';
import type { ClientConfig } from 'pg';

export interface Network {
  fetch: typeof globalThis.fetch;
  /** For realtime-js. */
  WebSocket: typeof globalThis.WebSocket;
  /** The login that a `postgresql://` URL holds, at an address that is reached from here. */
  postgres(url: string): Promise<Login>;
}

export interface Login extends ClientConfig {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
}

/** Reaches a platform on this machine, by its addresses. */
export const directly: Network = {
  fetch: globalThis.fetch,
  WebSocket: globalThis.WebSocket,
  postgres: async (url) => loginOf(url),
};

/** The id from which the names of a project's database and roles come. */
export const databaseIdOf = ({ database }: Pick<Login, 'database'>) => databaseIdIn(database);

export function loginOf(url: string): Login {
  const { hostname, port, username, password, pathname } = new URL(url);
  return {
    host: hostname,
    port: Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)),
  };
}
