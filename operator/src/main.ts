/** The operator as a program: settings from the environment, until it is told to stop or may lead no longer. */
import { startOperator } from './index.js';
import { readSettings } from './settings.js';

// Started by another program, it ends with it: by force, as an orderly exit waits until a log that nobody reads any
// more is written.
if (process.channel) process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

try {
  const operator = await startOperator(readSettings(process.env));
  process.send?.('ready');
  const stop = () => operator.close().then(() => process.exit(0));
  process.once('SIGTERM', stop).once('SIGINT', stop);
  operator.lost.then(() => process.exit(1));
} catch (error) {
  process.stderr.write(`operator: ${(error as Error).message}\n`);
  process.exit(1);
}
