import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { lockHolder, takeLock } from './lock.js';

test('only one process can have the lock, and a killed process releases it', async () => {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  try {
    assert.is(await lockHolder(home), undefined);
    const other = spawn(process.execPath, ['--input-type=module', '--eval', takeAndStay(home)], {
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    await once(other.stdout, 'data');
    assert.is(await takeLock(home), undefined);
    assert.is(await lockHolder(home), other.pid);
    other.kill('SIGKILL');
    await once(other, 'exit');
    assert.is(await lockHolder(home), undefined);
    const lock = await takeLock(home);
    assert.is(await lockHolder(home), process.pid);
    lock?.release();
    assert.is(await lockHolder(home), undefined);
  } finally {
    await rm(home, { recursive: true });
  }
});

const takeAndStay = (home: string) => `
  import { takeLock } from ${JSON.stringify(new URL('./lock.js', import.meta.url).href)};
  globalThis.lock = await takeLock(${JSON.stringify(home)});
  console.log('taken');
  process.stdin.resume();
`;

test.run();
