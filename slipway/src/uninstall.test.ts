/** Tests the removal of real homes and real processes, with a temporary folder in place of /var/lib/slipway. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  copyFile,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { reachableFolder as functionsFolder } from '@slipway/dataplane/functions/deno.js';
import { postgresAccount, reachableFolder } from '@slipway/postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Home, openHome, openSocketFolder } from './home.js';
import { takeLock } from './lock.js';
import { orphansMessage, removeInstallation, removeOrphans } from './uninstall.js';

const isRoot = process.getuid?.() === 0;
/**
 * Registers a test that needs root. Only root starts Postgres as another account, which needs folders outside of the
 * home.
 */
const asRoot = isRoot ? test : test.skip;

let folder: string;
let shared: string;
let lines: string[];
/** The folders of the apps of this machine, in place of containers. */
let apps: string[];
/** Folders of sockets, which are outside of `folder`. */
const sockets = new Set<string>();

test.before.each(async () => {
  // Other accounts can't enter it, like /root.
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  shared = path.join(folder, 'shared');
  lines = [];
  apps = [];
});

test.after.each(async () => {
  for (const each of [folder, ...sockets]) await rm(each, { recursive: true, force: true });
});

const removal = (answer = true) => ({
  shared,
  apps: {
    folders: async () => apps,
    end: async (app: string) => {
      apps = apps.filter((each) => each !== app);
    },
  },
  say: (text: string) => void lines.push(text),
  confirm: async () => answer,
});

/** Makes a home as a start leaves it. The production code makes its data folders. */
async function makeHome(name = 'home'): Promise<Home> {
  const home = await openHome(path.join(folder, name));
  (await takeLock(home.folder))?.release();
  sockets.add(home.sockets.folder);
  await openSocketFolder(home.sockets);
  const account = await postgresAccount();
  for (const link of [home.postgres, home.platformPostgres]) {
    const data = await reachableFolder(link, account, shared);
    await writeFile(path.join(data, 'PG_VERSION'), '18\n');
  }
  await mkdir(home.functions);
  functionsFolder(path.join(home.functions, 'deployed'), `functions-${name}`, shared);
  for (const each of [home.storage, home.sites, home.builds]) await mkdir(each);
  await writeFile(home.kubeconfig, 'kept');
  return home;
}

const namesIn = async (target: string) => (existsSync(target) ? (await readdir(target)).sort() : []);

async function problemOf(work: Promise<unknown>): Promise<string> {
  return await work.then(
    () => '',
    (error: Error) => error.message,
  );
}

test('an uninstall removes the home, its sockets and its folders outside, and lists each with its size', async () => {
  const home = await makeHome();
  const outside = (await namesIn(shared)).map((name) => path.join(shared, name));
  await removeInstallation(home.folder, removal());
  assert.not(existsSync(home.folder));
  assert.not(existsSync(home.sockets.folder));
  assert.equal(await namesIn(shared), []);
  const listed = [
    ...outside.filter((each) => !each.endsWith('.home')),
    home.sockets.folder,
    home.postgres,
    home.storage,
    home.sites,
    home.builds,
  ];
  if (isRoot) assert.is(outside.length, 6, 'two data folders, one of functions, and their records');
  for (const each of listed)
    assert.ok(
      lines.some((line) => line.endsWith(` MB  ${each}`)),
      each,
    );
});

test('an uninstall ends its own apps, and with --orphans those whose home is deleted', async () => {
  const home = await makeHome();
  await mkdir(path.join(home.apps, 'mine'), { recursive: true });
  const other = await makeHome('other');
  const [mine, others, deleted] = [
    path.join(home.apps, 'mine'),
    path.join(other.apps, 'theirs'),
    path.join(folder, 'deleted', 'apps', 'left'),
  ];
  apps = [mine, others, deleted];
  await removeInstallation(home.folder, removal(false));
  assert.equal(apps, [mine, others, deleted]);
  await removeInstallation(home.folder, removal());
  assert.equal(apps, [others, deleted]);
  assert.not.ok(existsSync(home.folder), lines.join('\n'));
  lines = [];
  await removeOrphans(removal(false), false);
  assert.match(lines.join('\n'), /An app whose installation is deleted: left, of .*deleted$/m);
  assert.equal(apps, [others, deleted]);
  await removeOrphans(removal(), false);
  assert.equal(apps, [others]);
});

test('an uninstall removes nothing when the answer is no', async () => {
  const home = await makeHome();
  const before = [await namesIn(home.folder), await namesIn(shared)];
  await removeInstallation(home.folder, removal(false));
  assert.equal([await namesIn(home.folder), await namesIn(shared)], before);
});

test('an uninstall fails and removes nothing while a platform runs over the home', async () => {
  const home = await makeHome();
  const lock = await takeLock(home.folder);
  const problem = await problemOf(removeInstallation(home.folder, removal()));
  lock?.release();
  assert.is(problem, `Slipway runs over ${home.folder} (process ${process.pid}): end it with \`npm stop\` first`);
  assert.ok(existsSync(home.kubeconfig));
});

test('an uninstall fails and removes nothing when the folder is missing, a file or not a home', async () => {
  await mkdir(path.join(folder, 'other', 'secrets'), { recursive: true });
  await writeFile(path.join(folder, 'file'), '');
  for (const name of ['other', 'file']) {
    assert.match(await problemOf(removeInstallation(path.join(folder, name), removal())), /is not a folder of Slipway/);
  }
  assert.match(await problemOf(removeInstallation(path.join(folder, 'none'), removal())), /^there is no folder/);
  assert.equal(await namesIn(folder), ['file', 'other']);
  assert.equal(await namesIn(path.join(folder, 'other')), ['secrets']);
});

test('an uninstall shows how much it has removed, of how much, and the remaining time', async () => {
  const home = await makeHome();
  await writeFile(path.join(home.logs, 'api.log'), Buffer.alloc(2 ** 20, 1));
  const shown: string[] = [];
  await removeInstallation(home.folder, { ...removal(), show: (text) => void shown.push(text) });
  assert.is(shown.pop(), '');
  assert.ok(shown.length > 5, `${shown.length} texts`);
  for (const text of shown) assert.match(text, /^… removed: \d+\.\d of \d+\.\d MB(, about \d+:\d\d left)?$/);
  const [, done, total] = /removed: (\S+) of (\S+) MB, about 0:00 left/.exec(shown.at(-1) ?? '') ?? [];
  assert.ok(Number(total) >= 1, total);
  assert.is(done, total);
});

test('an uninstall keeps files in the home that are not Slipway’s, and targets of links', async () => {
  const home = await makeHome();
  const [own, elsewhere] = [path.join(home.folder, 'thesis.txt'), path.join(folder, 'big-disk')];
  await writeFile(own, 'years of work');
  await mkdir(elsewhere);
  await writeFile(path.join(elsewhere, 'file'), 'kept');
  await rm(home.storage, { recursive: true });
  await symlink(elsewhere, home.storage);
  await symlink(elsewhere, path.join(home.functions, 'link'));
  await removeInstallation(home.folder, removal());
  assert.equal(await namesIn(home.folder), ['thesis.txt']);
  assert.equal(await namesIn(elsewhere), ['file']);
  assert.ok(lines.some((line) => line.includes('thesis.txt')));
});

test('an uninstall fails and removes nothing when a link of the home leads elsewhere', async () => {
  const home = await makeHome();
  const elsewhere = path.join(folder, 'data-of-someone');
  await mkdir(path.join(elsewhere, 'data-1'), { recursive: true });
  await mkdir(shared, { recursive: true });
  await symlink(path.join(elsewhere, 'data-1'), path.join(shared, 'data-link'));
  const targets = [elsewhere, '/', shared, path.join(shared, 'x', '..', '..'), path.join(shared, 'data-link')];
  for (const target of targets) {
    await rm(home.postgres, { recursive: true, force: true });
    await symlink(target, home.postgres);
    const problem = await problemOf(removeInstallation(home.folder, removal()));
    assert.match(problem, /which Slipway did not make, and nothing was removed/, target);
  }
  assert.equal(await namesIn(elsewhere), ['data-1']);
  assert.ok(existsSync(home.kubeconfig));
});

asRoot('an uninstall of a copied home keeps the data of the original', async () => {
  const home = await makeHome();
  const copy = await makeHome('copy');
  await rm(copy.postgres);
  await symlink(await readlink(home.postgres), copy.postgres);
  await removeInstallation(copy.folder, removal());
  assert.not(existsSync(copy.folder));
  assert.ok(existsSync(path.join(home.postgres, 'PG_VERSION')));
});

asRoot('the last uninstall removes the copies of programs, and one before it keeps them', async () => {
  const [first, second] = [await makeHome('first'), await makeHome('second')];
  await mkdir(path.join(shared, 'postgres-18', 'bin'), { recursive: true });
  await writeFile(path.join(shared, 'deno-2'), '');
  await removeInstallation(first.folder, removal());
  assert.ok(existsSync(path.join(shared, 'postgres-18')));
  await removeInstallation(second.folder, removal());
  assert.not(existsSync(shared));
});

asRoot('an uninstall keeps copies of programs that a process runs', async () => {
  const home = await makeHome();
  const program = path.join(shared, 'deno-2');
  await copyFile('/bin/sleep', program);
  const child = spawn(program, ['1000'], { stdio: 'ignore' });
  await once(child, 'spawn');
  try {
    await removeInstallation(home.folder, removal());
    assert.ok(existsSync(program));
    assert.ok(lines.some((line) => line.includes(`process ${child.pid}`)));
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

/**
 * Removes the home in a process that is killed at its `step`th file system call. Returns true if the process was
 * killed.
 */
async function killedAt(step: number, home: string): Promise<boolean> {
  const program = `
    import fs from 'node:fs/promises';
    import { syncBuiltinESMExports } from 'node:module';
    let left = ${step};
    for (const name of ['rm', 'rmdir', 'writeFile']) {
      const original = fs[name];
      fs[name] = async (...words) => {
        if (left-- === 0) process.kill(process.pid, 'SIGKILL');
        return await original(...words);
      };
    }
    syncBuiltinESMExports();
    const { removeInstallation } = await import(${JSON.stringify(new URL('./uninstall.js', import.meta.url).href)});
    await removeInstallation(${JSON.stringify(home)}, {
      shared: ${JSON.stringify(shared)}, say: () => {}, confirm: async () => true,
      apps: { folders: async () => [], end: async () => {} } });`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'ignore', 2] });
  const [code, signal] = await once(child, 'exit');
  if (signal !== 'SIGKILL') assert.is(code, 0);
  return signal === 'SIGKILL';
}

test('a second uninstall completes a killed uninstall, and no start works before that', async () => {
  let steps = 0;
  for (let killed = true; killed; steps++) {
    const home = await makeHome();
    if (isRoot) await writeFile(path.join(shared, 'deno-2'), '');
    killed = await killedAt(steps, home.folder);
    if (killed && (await namesIn(home.folder)).includes('uninstalling')) {
      assert.match(await problemOf(openHome(home.folder)), /is half removed: finish it by `npm run uninstall`/);
    }
    if (killed) await removeInstallation(home.folder, removal());
    assert.not(existsSync(home.folder), `step ${steps}`);
    assert.not(existsSync(home.sockets.folder), `step ${steps}`);
    assert.not(existsSync(shared), `step ${steps}`);
  }
  assert.ok(steps > 15, `${steps} steps`);
});

asRoot('--orphans removes data whose home is deleted, and keeps that of others', async () => {
  const [kept, gone] = [await makeHome('kept'), await makeHome('gone')];
  const names = await namesIn(shared);
  await rm(gone.folder, { recursive: true });
  await mkdir(path.join(shared, 'data-unknown'));
  assert.match(
    (await orphansMessage(shared)) ?? '',
    /^! data whose SLIPWAY_HOME is deleted: .*\/functions-gone \(0\.0 MB, of .*\/gone\/functions\/deployed\)/,
  );
  await removeOrphans(removal(false), false);
  assert.is((await namesIn(shared)).length, names.length + 1);
  await removeOrphans(removal(), false);
  const left = await namesIn(shared);
  assert.is(left.length, 7);
  assert.is(await orphansMessage(shared), undefined);
  for (const link of [kept.postgres, kept.platformPostgres]) assert.ok(existsSync(path.join(link, 'PG_VERSION')));
  assert.ok(lines.some((line) => line.includes('data-unknown')));
  await removeOrphans(removal(), true);
  assert.equal(
    await namesIn(shared),
    left.filter((name) => name !== 'data-unknown'),
  );
});

asRoot('--orphans keeps data when a process works in it or its home is being started', async () => {
  const gone = await makeHome('gone');
  const data = [await readlink(gone.postgres), await readlink(gone.platformPostgres)];
  const lock = await takeLock(gone.folder);
  for (const link of [gone.postgres, gone.platformPostgres]) await rm(link);
  await removeOrphans(removal(), false);
  for (const each of data) assert.ok(existsSync(each), 'its home is locked');
  lock?.release();
  const child = spawn('/bin/sleep', ['1000'], { cwd: data[0], stdio: 'ignore' });
  await once(child, 'spawn');
  try {
    await removeOrphans(removal(), false);
    assert.equal(
      data.map((each) => existsSync(each)),
      [true, false],
    );
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
});

asRoot('a start reports the data of a deleted home when its own home has the same path', async () => {
  const home = await makeHome();
  const data = await readlink(home.postgres);
  await rm(home.folder, { recursive: true });
  await makeHome();
  const lock = await takeLock(home.folder);
  const message = await orphansMessage(shared);
  lock?.release();
  assert.match(message ?? '', data);
  assert.not.match(message ?? '', await readlink(home.postgres));
});

asRoot('functions of two homes with one name have separate folders, and a start finds its own', async () => {
  await mkdir(shared);
  const links = ['first', 'second'].map((name) => path.join(folder, name, 'deployed'));
  const folders = links.map((link) => functionsFolder(link, 'functions-.slipway', shared));
  assert.is(new Set(folders).size, 2);
  for (const [i, link] of links.entries()) {
    assert.is(await readlink(link), folders[i]);
    assert.is(functionsFolder(link, 'functions-.slipway', shared), folders[i]);
    assert.is(await readFile(`${folders[i]}.home`, 'utf8'), link);
  }
});

asRoot('a start records the home of data when an earlier release made it or the home was moved', async () => {
  const home = await makeHome();
  const data = await readlink(home.postgres);
  const record = `${data}.home`;
  assert.is(await readFile(record, 'utf8'), home.postgres);
  await rm(record);
  const account = await postgresAccount();
  await reachableFolder(home.postgres, account, shared);
  assert.is(await readFile(record, 'utf8'), home.postgres);
  const moved = path.join(folder, 'moved');
  await rename(home.folder, moved);
  await reachableFolder(path.join(moved, 'postgres'), account, shared);
  assert.is(await readFile(record, 'utf8'), path.join(moved, 'postgres'));
  assert.is((await lstat(record)).uid, 0);
});

const main = fileURLToPath(new URL('./main.js', import.meta.url));

test('npm run uninstall fails without a terminal or --yes, and rejects other words', async () => {
  const home = await openHome(path.join(folder, 'home'));
  await writeFile(home.kubeconfig, 'kept');
  const run = promisify(execFile);
  const env = { ...process.env, SLIPWAY_HOME: home.folder };
  const failing = async (...words: string[]) =>
    await run(process.execPath, [main, 'uninstall', ...words], { env }).then(
      () => '',
      ({ stderr }) => stderr.trim().split('\n').at(-1),
    );
  assert.match(await failing(), /^slipway: nothing was removed, as there is no terminal/);
  assert.match(await failing('--force'), /^slipway: uninstall takes no "--force"/);
  assert.match(await failing('--unknown'), /^slipway: --unknown goes with --orphans/);
  const { stdout } = await run(process.execPath, [main, 'uninstall', '--yes', '--help'], { env });
  assert.match(stdout, /npm run uninstall +removes all of SLIPWAY_HOME/);
  assert.ok(existsSync(home.kubeconfig));
});

test.run();
