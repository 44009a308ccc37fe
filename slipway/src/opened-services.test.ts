import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Home } from './home.js';
import { chooseServices, closedMessage, countProjectsWithFiles } from './opened-services.js';

let home: Home;

test.before.each(async () => {
  home = { folder: await mkdtemp(path.join(tmpdir(), 'slipway-test-')) } as Home;
});
test.after.each(() => rm(home.folder, { recursive: true, force: true }));

test('a start without the setting opens the services that an earlier start opened', async () => {
  assert.equal(await chooseServices(home, undefined), { setting: '', closed: [] });
  assert.equal(await chooseServices(home, 'all'), { setting: 'all', closed: [] });
  assert.equal(await chooseServices(home, undefined), { setting: 'all', closed: [] });
  assert.equal(await chooseServices(home, 'storage'), { setting: 'storage', closed: ['functions'] });
});

test('the setting none closes all services, and later starts keep them closed', async () => {
  await chooseServices(home, 'storage,functions');
  assert.equal(await chooseServices(home, 'none'), { setting: 'none', closed: ['storage', 'functions'] });
  assert.equal(await chooseServices(home, undefined), { setting: 'none', closed: [] });
  assert.equal(await chooseServices(home, 'none'), { setting: 'none', closed: [] });
});

test('a stored choice is rejected with its file and the fixes when it names no service', async () => {
  const file = path.join(home.folder, 'services-shared');
  await writeFile(file, 'disk');
  const refusal = await chooseServices(home, undefined).then(String, (error: Error) => error.message);
  assert.match(refusal, new RegExp(`^${file}: .*names "disk".*Remove the file, or set SLIPWAY_SERVICES_SHARED$`));
  assert.is(await readFile(file, 'utf8'), 'disk');
});

test('projects count as users of storage when their storage folder has files', async () => {
  const folder = path.join(home.folder, 'storage');
  assert.is(await countProjectsWithFiles(folder), 0);
  await mkdir(path.join(folder, 'used', 'content', 'ab'), { recursive: true });
  await mkdir(path.join(folder, 'emptied', 'content'), { recursive: true });
  assert.is(await countProjectsWithFiles(folder), 1);
});

test('a start that closes services names the number of projects that use them', () => {
  assert.is(
    closedMessage(['storage', 'functions'], { storage: 1, functions: 12 }),
    '! closed to shared projects now: storage (1 project has files), functions (12 projects have functions). ' +
      'All data stays; SLIPWAY_SERVICES_SHARED=all npm start opens them again',
  );
  assert.match(closedMessage(['storage'], { storage: undefined, functions: 0 }), /now: storage\. All data stays/);
});

test.run();
