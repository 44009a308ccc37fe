/**
 * Tests damaged files on the functions' disk, as left by a crash, a full disk or a person: the damaged function is
 * disabled, and others are served.
 */
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions, type TestFunctions } from './testing.js';

const CODE = `Deno.serve(() => new Response('alive'));`;
const VERSION = 7;
let home: string;
let functions: TestFunctions | undefined;

test.before.each(async () => {
  home = mkdtempSync(path.join(tmpdir(), 'slipway-unreadable-'));
  // Functions' accounts can enter this home, so it needs no linked folder.
  chmodSync(home, 0o755);
  functions = await startTestFunctions({}, home);
  for (const [ref, name] of [
    ['damaged', 'one'],
    ['damaged', 'two'],
    ['neighbour', 'one'],
  ] as const) {
    assert.equal(await deploy(ref, name), { state: 'ready' });
  }
});
test.after.each(async () => {
  await functions?.close();
  rmSync(home, { recursive: true, force: true });
});

const running = () => functions as TestFunctions;
const deploy = (ref: string, name: string) => running().deploy(ref, name, CODE, { version: VERSION });
const root = () => path.join(home, 'functions', 'deployed');
const statusOf = async (ref: string, name: string) => (await fetch(`${running().url(ref)}/${name}`)).status;

/** Stops the service, changes its files and starts it again. */
async function restartAfter(damage: () => void): Promise<void> {
  await functions?.close();
  functions = undefined;
  damage();
  functions = await startTestFunctions({}, home);
}

/** Replaces a path by `content`; undefined: by a folder. */
function replace(file: string, content: string | undefined): void {
  rmSync(file, { recursive: true, force: true });
  if (content === undefined) mkdirSync(file);
  else writeFileSync(file, content);
}

const DAMAGES: [what: string, file: string, content: string | undefined][] = [
  ['current.json is empty', 'current.json', ''],
  ['current.json is cut off', 'current.json', '{"version":7,"verif'],
  ['current.json is another value', 'current.json', 'null'],
  [
    'current.json names a path as its version',
    'current.json',
    '{"version":"../../neighbour/one/7","verifyJwt":false,"digest":"x"}',
  ],
  ['current.json is a folder', 'current.json', undefined],
  ['the source is empty', `${VERSION}/index.ts`, ''],
  ['the source is a folder', `${VERSION}/index.ts`, undefined],
  ['the folder of the version is a file', `${VERSION}`, 'x'],
];
for (const [what, file, content] of DAMAGES) {
  test(`the functions service disables one function when ${what}, and the next deploy repairs it`, async () => {
    await restartAfter(() => replace(path.join(root(), 'damaged', 'one', file), content));
    assert.is(await statusOf('neighbour', 'one'), 200);
    assert.is(await statusOf('damaged', 'two'), 200);
    const answer = await fetch(`${running().url('damaged')}/one`);
    assert.is(answer.status, 503);
    assert.ok(Number(answer.headers.get('retry-after')) > 0);
    assert.is(((await answer.json()) as { code: string }).code, 'UNREADABLE');
    assert.ok(
      running()
        .service.deployer.deployed()
        .some(({ ref, name }) => ref === 'damaged' && name === 'one'),
    );

    const first = await deploy('damaged', 'one');
    assert.is(first.state, 'busy');
    assert.match((first as { message: string }).message, /unreadable/);
    assert.is((first as { lost?: boolean }).lost, true);
    assert.equal(await deploy('damaged', 'one'), { state: 'ready' });
    assert.is(await statusOf('damaged', 'one'), 200);
    await restartAfter(() => undefined);
    assert.is(await statusOf('damaged', 'one'), 200);
  });
}

test('a damaged function is removed like any other when it is deleted', async () => {
  await restartAfter(() => replace(path.join(root(), 'damaged', 'one', 'current.json'), ''));
  await running().service.deployer.remove('damaged', 'one');
  assert.is(await statusOf('damaged', 'one'), 404);
  await restartAfter(() => undefined);
  assert.is(await statusOf('damaged', 'one'), 404);
});

test('the next deploy repairs a project when its cache or its folder is a file', async () => {
  await restartAfter(() => {
    replace(path.join(root(), 'damaged', '.cache', 'gen'), 'x');
    replace(path.join(root(), 'other'), 'x');
  });
  assert.is(await statusOf('neighbour', 'one'), 200);
  for (const name of ['one', 'two']) {
    assert.is(await statusOf('damaged', name), 503);
    assert.is((await deploy('damaged', name)).state, 'busy');
    assert.equal(await deploy('damaged', name), { state: 'ready' });
    assert.is(await statusOf('damaged', name), 200);
  }
  assert.equal(await deploy('other', 'one'), { state: 'ready' });
});

const OF_ALL: [what: string, file: string, content: string | undefined][] = [
  ['the name of the disk is empty', 'deployed/.disk', ''],
  ['the name of the disk is a folder', 'deployed/.disk', undefined],
  ['the path of the last sockets is empty', 'sockets', ''],
  ['the path of the last sockets is a folder', 'sockets', undefined],
];
for (const [what, file, content] of OF_ALL) {
  test(`the functions service starts when ${what}`, async () => {
    await restartAfter(() => replace(path.join(home, 'functions', file), content));
    assert.match(running().service.disk, /^[0-9a-f-]{36}$/);
    assert.is(await statusOf('damaged', 'one'), 200);
  });
}

test('the functions service removes only its own folders if the file with the last sockets is damaged', async () => {
  const precious = path.join(home, 'precious');
  await restartAfter(() => {
    mkdirSync(precious);
    writeFileSync(path.join(precious, 'file'), 'kept');
    writeFileSync(path.join(home, 'functions', 'sockets'), precious);
  });
  assert.is(readFileSync(path.join(precious, 'file'), 'utf8'), 'kept');
});

test.run();
