/** Starts the platform again right after a kill -9 of all its processes, while the system still has them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { processTree, send } from './processes.js';

const ROUNDS = 5;

test('a start succeeds right after kill -9 of every process', async () => {
  let platform: RunningPlatform | undefined;
  try {
    platform = await startPlatform();
    const person = await Management.register(platform);
    for (let round = 1; round <= ROUNDS; round++) {
      // The first process is the supervisor, whose end ends others.
      for (const pid of await processTree(platform.pid)) send(pid, 'SIGKILL');
      // Started at once, when none of the killed processes may have ended yet.
      platform = await startPlatform(platform);
      assert.is((await person.call('GET', '/projects')).status, 200);
    }
  } finally {
    await platform?.remove();
  }
});

test.run();
