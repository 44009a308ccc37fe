/**
 * Sessions on Postgres clusters, opened on demand: one `DatabaseServer` for each cluster. A changed address replaces
 * the server. Beyond MOST_OPEN servers, the least recently used one is closed. Called by `clusters.ts`.
 */
import type { DatabaseServer } from '../../postgres/server.js';
import { hostOf, type Place } from './place.js';

interface Open {
  url: string;
  server: DatabaseServer;
  users: number;
}

const MOST_OPEN = 200;

export class OpenServers {
  /** In the order of use: the most recently used is last. */
  readonly #open = new Map<string, Open>();
  readonly #make: (place: Place, url: string) => DatabaseServer;
  readonly #closing = new Set<Promise<void>>();

  constructor(make: (place: Place, url: string) => DatabaseServer) {
    this.#make = make;
  }

  async use<T>(place: Place, url: string, work: (server: DatabaseServer) => Promise<T>): Promise<T> {
    const open = this.#at(place, url);
    open.users += 1;
    try {
      return await work(open.server);
    } finally {
      open.users -= 1;
    }
  }

  close(place: Place): void {
    this.#close(hostOf(place));
  }

  #close(key: string): void {
    const open = this.#open.get(key);
    if (!open) return;
    this.#open.delete(key);
    const closed: Promise<void> = open.server
      .close()
      .catch(() => {})
      .finally(() => this.#closing.delete(closed));
    this.#closing.add(closed);
  }

  async closeAll(): Promise<void> {
    for (const key of [...this.#open.keys()]) this.#close(key);
    await Promise.all(this.#closing);
  }

  #at(place: Place, url: string): Open {
    const key = hostOf(place);
    const known = this.#open.get(key);
    if (known && known.url !== url) this.#close(key);
    const open = known?.url === url ? known : { url, server: this.#make(place, url), users: 0 };
    this.#open.delete(key);
    this.#open.set(key, open);
    this.#closeIdle();
    return open;
  }

  #closeIdle(): void {
    for (const [key, { users }] of this.#open) {
      if (this.#open.size <= MOST_OPEN) return;
      if (users === 0) this.#close(key);
    }
  }
}
