/** The data plane as a program: settings from the environment, until it is told to stop. */
import { startDataplane } from './index.js';
import { readSettings } from './settings.js';

// Started by another program, it ends with it: by force, as an orderly exit waits until a log that nobody reads any
// more is written.
if (process.channel) process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

try {
  const dataplane = await startDataplane(readSettings(process.env));
  process.send?.('ready');
  const stop = () => void dataplane.close().then(() => process.exit(0));
  process.once('SIGTERM', stop).once('SIGINT', stop);
} catch (error) {
  process.stderr.write(`dataplane: ${(error as Error).message}\n`);
  process.exit(1);
}
