/** One tenant's attacks beside another tenant's app, on one machine. */
import { test } from 'uvu';
import { type RunningPlatform, startPlatform } from './platform.js';
import { SECONDS, siege } from './siege.suite.js';

let platform: RunningPlatform;

if (!SECONDS) console.log('# skipped: SIEGE_SECONDS=6 runs the attacks beside a neighbour under load');
else {
  test.before(async () => {
    platform = await startPlatform();
  });

  test.after(async () => {
    await platform?.remove();
  });

  siege(test, () => platform, SECONDS);
}

test.run();
