import type { Logger } from 'pino';

/**
 * Runs `work` every so many milliseconds, never twice at once, until the returned function is called. A failure is
 * logged, and the next interval tries again.
 */
export function every(milliseconds: number, what: string, work: () => Promise<void>, log: Logger): () => void {
  let underway = false;
  const begin = async () => {
    if (underway) return;
    underway = true;
    try {
      await work();
    } catch (error) {
      log.warn({ what, why: (error as Error).message }, 'periodic work failed; retried');
    } finally {
      underway = false;
    }
  };
  const timer = setInterval(() => void begin(), milliseconds).unref();
  return () => clearInterval(timer);
}
