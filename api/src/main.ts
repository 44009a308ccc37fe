/**
 * The API as a program: settings from the environment, and an end when a signal says so, or at once when the channel of
 * its starter is gone.
 */
import { settingsFromEnvironment, startApi } from './index.js';

// Also while it is still starting: without its starter it has no business. By force, as an orderly exit waits until a
// log that nobody reads any more is written.
if (process.channel) process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

// As the first process of a container it would not end by a signal that it does not hear.
const endEarly = () => process.exit(0);
process.once('SIGTERM', endEarly).once('SIGINT', endEarly);

try {
  const api = await startApi(settingsFromEnvironment(process.env));
  let ending: Promise<void> | undefined;
  const end = () => {
    ending ??= api.close();
    void ending.finally(() => process.exit(0));
  };
  process.off('SIGTERM', endEarly).off('SIGINT', endEarly);
  process.once('SIGTERM', end).once('SIGINT', end);
} catch (error) {
  process.stderr.write(`api: ${(error as Error).message}\n`);
  process.exit(1);
}
