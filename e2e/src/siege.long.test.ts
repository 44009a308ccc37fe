/** Tests attacks of one tenant while another tenant's app is in use, on one machine. */
import { test } from 'uvu';
import { type RunningPlatform, startPlatform } from './platform.js';
import { logsOfHome } from './siege/long-turns.js';
import { siege } from './siege.suite.js';

/** Maximum milliseconds of a read of the app, in the best of three tries of an attack. */
const MOST_READ_MS = 250;

let platform: RunningPlatform;

test.before(async () => {
  platform = await startPlatform(undefined, { SLIPWAY_SERVICES_SHARED: 'all' });
});

test.after(async () => {
  await platform?.remove();
});

siege(
  test,
  () => platform,
  'one-machine',
  logsOfHome(() => platform.home),
  MOST_READ_MS,
);

test.run();
