import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import type { Launched } from '@slipway/sandbox';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { LIMITS } from './limits.js';
import { Shares } from './shares.js';
import { Watchdog } from './watchdog.js';

/** Process that allocates `megabytes`, and reports when it has. */
async function holder(megabytes: number): Promise<ChildProcess> {
  const code = `const retained = Buffer.alloc(${megabytes} * 2 ** 20, 1);
    console.log(retained.length); setInterval(() => {}, 1000)`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
  return child;
}

if (!existsSync('/proc/self/status')) console.log('# skipped: memory of processes is read from /proc');
else
  test('an isolate within its limits is not ended after another project’s largest isolate was ended', async () => {
    const limits = { ...LIMITS, megabytesOfProject: 500, megabytesOfAccount: 5000, checkMegabytes: 5000 };
    const watchdog = new Watchdog(
      { ...limits, togetherMegabytes: 750, lookMilliseconds: 20 },
      new Shares(limits, () => undefined),
    );
    const [large, small, neighbour] = await Promise.all([260, 250, 300].map(holder));
    const children = [large, small, neighbour] as ChildProcess[];
    const ended: string[] = [];
    try {
      for (const [name, child] of Object.entries({ large, small, neighbour })) {
        const { pid } = child as ChildProcess;
        const closed = once(child as ChildProcess, 'exit');
        const launched = { pid, closed, kill: () => (child as ChildProcess).kill('SIGKILL') } as unknown as Launched;
        const ref = name === 'neighbour' ? 'neighbour' : 'greedy';
        watchdog.watchCheck({ ref, process: launched, tooLarge: () => void ended.push(name) });
      }
      await until(() => ended.length > 0, 'an end');
      await once(large as ChildProcess, 'exit');
      // The two other processes still run after some further checks.
      await new Promise((resolve) => setTimeout(resolve, 200));
      assert.equal(ended, ['large']);
    } finally {
      watchdog.close();
      for (const child of children) child.kill('SIGKILL');
    }
  });

test.run();
