/** Starts the platform again in the instant after a kill -9 of all its processes, while the system still has them. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { processTree } from './processes.js';

const ROUNDS = 5;

test('a start right after kill -9 of every process works, each time', async () => {
  let platform: RunningPlatform | undefined;
  try {
    platform = await startPlatform();
    const person = await Management.register(platform);
    for (let round = 1; round <= ROUNDS; round++) {
      for (const pid of await processTree(platform.pid)) process.kill(pid, 'SIGKILL');
      // Not a moment later: none of them may have ended by now.
      platform = await startPlatform(platform);
      assert.is((await person.call('GET', '/projects')).status, 200);
    }
  } finally {
    await platform?.remove();
  }
});

test.run();
