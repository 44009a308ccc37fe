/** Tests an administrator's operations on a project in use, on one machine. */
import { test } from 'uvu';
import { operations } from './operations.suite.js';
import { type RunningPlatform, startPlatform } from './platform.js';

let platform: RunningPlatform;

test.before(async () => {
  platform = await startPlatform();
});

test.after(async () => {
  await platform?.remove();
});

operations(test, () => platform, { plan: 'free', how: 'on one machine' });

test.run();
