/**
 * Builds attacks from sessions at a project's database and from requests. In: the attacker's project and account. Out:
 * a function that attacks until its signal aborts. The lists of attacks use it.
 */
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Management, ProjectView } from '../management.js';
import type { Platform } from '../platform.js';
import type { Service } from './victim.js';

export interface Attacker {
  platform: Platform;
  person: Management;
  project: ProjectView;
  /** The services that this installation has for the project. */
  services: readonly Service[];
}

export interface Attack {
  name: string;
  run(attacker: Attacker, signal: AbortSignal): Promise<void>;
}

/** Opens sessions at `db_url` that each repeat `work` on a new connection, because the platform ends such sessions. */
export function bySessions(count: number, work: (client: pg.Client, signal: AbortSignal, n: number) => Promise<void>) {
  return async ({ platform, project }: Attacker, signal: AbortSignal): Promise<void> => {
    const login = await platform.network.postgres(project.db_url);
    const session = async (_: unknown, n: number) => {
      while (!signal.aborted) {
        const client = new pg.Client({ ...login, connectionTimeoutMillis: 5_000 });
        client.on('error', () => {});
        // Not awaited: a connection that a full server never accepted does not end.
        const end = () => void client.end().catch(() => {});
        signal.addEventListener('abort', end, { once: true });
        try {
          await client.connect();
          await work(client, signal, n);
        } catch {
          await sleep(250);
        } finally {
          signal.removeEventListener('abort', end);
          end();
        }
      }
    };
    // Does not wait for the sessions: connect() of a client that is ended meantime never settles.
    await Promise.race([Promise.all(Array.from({ length: count }, session)), once(signal, 'abort')]);
  };
}

/** Keeps what the statements acquired, and sends nothing more. */
export const keptSilently = (statements: string[]) => async (client: pg.Client, signal: AbortSignal) => {
  for (const sql of statements) await client.query(sql);
  await Promise.race([once(client, 'end'), once(signal, 'abort')]);
};

export const kept = (statements: string[]) => async (client: pg.Client, signal: AbortSignal) => {
  for (const sql of statements) await client.query(sql);
  await untilSessionEnds(client, signal);
};

/** Waits until the session ends, for any reason. */
async function untilSessionEnds(client: pg.Client, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await client.query('select 1');
    await sleep(1_000);
  }
}

/** Sends as many requests as a caller can, a few at a time. */
export function byRequests(count: number, request: (attacker: Attacker, n: number) => Promise<Response>) {
  return async (attacker: Attacker, signal: AbortSignal): Promise<void> => {
    let next = 0;
    const caller = async () => {
      while (!signal.aborted) {
        const response = await request(attacker, next++).catch(() => undefined);
        await response?.arrayBuffer().catch(() => undefined);
        if (!response?.ok) await sleep(10);
      }
    };
    await Promise.all(Array.from({ length: count }, caller));
  };
}

export const bearer = (key: string) => ({
  apikey: key,
  authorization: `Bearer ${key}`,
  'content-type': 'application/json',
});
