/** The program: settings from the environment, and an end as soon as whoever started it is gone. */
import { pino } from 'pino';
import { startApiServer } from './server.js';
import { readSettings } from './settings.js';

const fail = (error: Error): never => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
};

// Also while it is still starting: without its starter it has no business. By force, as an orderly exit waits until a
// log that nobody reads any more is written.
if (process.channel) process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));

try {
  const { level, ...settings } = readSettings(process.env);
  const log = pino({ level, name: 'apiserver' });
  const server = await startApiServer({ ...settings, log, onFatal: fail });
  const stop = () => void server.close().then(() => process.exit(0), fail);
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  process.send?.({ ready: true, url: server.url });
} catch (error) {
  fail(error as Error);
}
