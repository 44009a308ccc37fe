import { chown, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { postgresAccount, reachableFolder } from './account.js';

const account = await postgresAccount();
/** The id of no account on the machine, and an id that every Linux has. */
const [DELETED, NOBODY] = [1_234_567_891, 65_534];

if (!account) console.log('# skipped: only a start by root runs Postgres as another account');
else {
  let home: string;
  test.before.each(async () => {
    home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  });
  test.after.each(() => rm(home, { recursive: true, force: true }));

  /** Returns the owners of a data folder, and of a file in it, after a start opened the folder. */
  const ownersAfterStart = async (before: number) => {
    const folder = path.join(home, 'data');
    const file = path.join(folder, 'PG_VERSION');
    await mkdir(folder);
    await writeFile(file, '18');
    for (const each of [folder, file]) await chown(each, before, before);
    await reachableFolder(folder, account);
    return await Promise.all([folder, file].map(async (each) => (await stat(each)).uid));
  };

  test('data files of a deleted system account get the server’s account as their owner', async () => {
    assert.equal(await ownersAfterStart(DELETED), [account.uid, account.uid]);
  });

  test('data files of an existing system account keep their owner', async () => {
    assert.equal(await ownersAfterStart(NOBODY), [NOBODY, NOBODY]);
  });
}

test.run();
