import type { Logger } from 'pino';
import type { Registry } from '../resources/registry.js';
import type { Writes } from '../resources/writes.js';
import type { Store } from '../storage/store.js';

/** The parts of the server that every controller uses. */
export interface Parts {
  store: Store;
  registry: Registry;
  writes: Writes;
  log: Logger;
}
