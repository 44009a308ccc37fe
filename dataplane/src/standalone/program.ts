/**
 * The life of a service that is a process of its own: it serves, and on SIGTERM ends what is under way. Called by both
 * programs' mains.
 */

export interface Running {
  close(): Promise<void>;
}

/**
 * Runs a program as the first process of a container: such a process has no default reaction to signals, so it listens
 * from the beginning.
 */
export async function runProgram(name: string, start: () => Promise<Running>): Promise<void> {
  let running: Running | undefined;
  const stop = () => {
    if (running === undefined) process.exit(0);
    void running.close().finally(() => process.exit(0));
  };
  process.once('SIGTERM', stop).once('SIGINT', stop);
  try {
    running = await start();
  } catch (error) {
    process.stderr.write(`${name}: ${(error as Error).message}\n`);
    process.exit(1);
  }
}
