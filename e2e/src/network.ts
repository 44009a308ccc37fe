/**
 * Connects the process of a test to a platform's addresses. In: addresses from the API. Out: requests and sockets.
 * Every client in the tests uses it.
 */
import { databaseIdIn } from '@slipway/installation';
import type { ClientConfig } from 'pg';

export interface Network {
  fetch: typeof globalThis.fetch;
  /** The WebSocket class for realtime-js. */
  WebSocket: typeof globalThis.WebSocket;
  /** Returns the login in a `postgresql://` URL, with an address that can be reached from here. */
  postgres(url: string): Promise<Login>;
}

export interface Login extends ClientConfig {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string;
}

/** Network of a platform on this machine, to which tests connect directly. */
export const directly: Network = {
  fetch: globalThis.fetch,
  WebSocket: globalThis.WebSocket,
  postgres: async (url) => loginOf(url),
};

/** Returns the id in the names of a project's database and roles. */
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
