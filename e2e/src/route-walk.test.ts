/** Calls every operation as every kind of caller, on one machine, where the first account is the administrator's. */
import { test } from 'uvu';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { walkRoutes } from './route-walk.suite.js';

let platform: RunningPlatform;

test.before(async () => {
  platform = await startPlatform(undefined, { SLIPWAY_SERVICES_SHARED: 'storage,functions' });
});

test.after(async () => {
  await platform?.remove();
});

walkRoutes(
  test,
  () => platform,
  (scopes) => Management.register(platform, undefined, undefined, scopes),
);

test.run();
