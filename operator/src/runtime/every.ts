import type { Logger } from 'pino';

/**
 * Does `work` every so many milliseconds, never twice at once, until what is returned is called. What fails is logged,
 * and done again.
 */
export function every(milliseconds: number, what: string, work: () => Promise<void>, log: Logger): () => void {
  let underway = false;
  const begin = async () => {
    if (underway) return;
    underway = true;
    try {
      await work();
    } catch (error) {
      log.warn({ why: (error as Error).message }, `${what} failed, and is done again`);
    } finally {
      underway = false;
    }
  };
  const timer = setInterval(() => void begin(), milliseconds).unref();
  return () => clearInterval(timer);
}
