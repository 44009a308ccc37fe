import { setTimeout as pause } from 'node:timers/promises';

/** Two minutes are for a machine that does much else. */
const PATIENCE_MS = 120_000;
const POLL_MS = 5;

/** Returns the first truthy result of `look`; a test that waits in vain fails and names `what`. */
export async function until<T>(look: () => Promise<T> | T, what: string): Promise<NonNullable<T>> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await look();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain for ${what}`);
    await pause(POLL_MS);
  }
}
