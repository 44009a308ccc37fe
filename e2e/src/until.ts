import { setTimeout as sleep } from 'node:timers/promises';

const PATIENCE_MS = 180_000;

/** Resolves with the first answer of `look` that is not undefined; fails, naming `what`, when none comes. */
export async function until<T>(what: string, look: () => Promise<T | undefined>, patience = PATIENCE_MS): Promise<T> {
  const deadline = Date.now() + patience;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error(`after ${patience / 1000} s still not: ${what}`);
    await sleep(25);
  }
}
