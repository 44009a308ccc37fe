/**
 * Runs a program: starts it, reports the start to its parent, and stops it in order on a signal. The program exits at
 * once when the channel to its parent closes. Called by each program's main.
 */
import { startWatchdog } from './watchdog.js';

export interface Running {
  /** Stops in order. */
  close(): Promise<unknown>;
  /** Message to the parent; default: `ready`. */
  ready?: object;
  /** Resolves when the program must stop. */
  lost?: Promise<unknown>;
}

/**
 * `settings` is read before anything starts; its `hangRecord` is the path of the file that records hangs of projects.
 * An error of both ends the program with its message on stderr, and so does `fail`, at any time.
 */
export async function runProgram<T extends object>(
  name: string,
  settings: () => T,
  start: (settings: T, fail: (error: Error) => void) => Promise<Running>,
): Promise<void> {
  // Applies also during the start: without its parent the program has no purpose. Exits by force, because an orderly
  // exit waits until the log is written, which may have no reader any longer.
  if (process.channel) process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
  let running: Running | undefined;
  let isClosing = false;
  const stop = () => {
    // The first process of a container ignores a signal without a handler.
    if (!running) process.exit(0);
    if (isClosing) return;
    isClosing = true;
    running.close().then(() => process.exit(0), fail);
  };
  const fail = (error: Error) => {
    process.stderr.write(`${name}: ${error.message}\n`);
    process.exit(1);
  };
  process.once('SIGTERM', stop).once('SIGINT', stop);
  try {
    const read = settings();
    startWatchdog({ program: name, record: (read as { hangRecord?: string }).hangRecord });
    running = await start(read, fail);
    process.send?.(running.ready ?? 'ready');
    void running.lost?.then(() => process.exit(1));
  } catch (error) {
    fail(error as Error);
  }
}
