/** Tests attacks of one customer on another on one machine, and that its files contain no secret. */
import { randomUUID } from 'node:crypto';
import { readdir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { attack, type Place } from './isolation.suite.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { processTree } from './processes.js';

let platform: RunningPlatform;

const { scene } = attack(
  test,
  async () => {
    platform = await startPlatform();
    return {
      platform,
      plan: 'free',
      databases: ['slipway', 'postgres', 'template1'],
      written: async () => [...(await logs()), ...(await processArguments())],
      secrets: async () => [await readFile(path.join(platform.home, 'secrets', 'postgres-superuser'), 'utf8')],
    };
  },
  async () => {
    await platform?.remove();
  },
);

test('a project’s secrets are unreadable in the files of Postgres', async () => {
  const [plain, env, git] = [randomUUID(), randomUUID(), randomUUID()];
  const { status } = await scene.victim.person.call('PATCH', `/projects/${scene.victim.project.id}`, {
    github_token: git,
    env_vars: { CANARY: env },
  });
  assert.is(status, 200);
  await scene.victim.person.query(scene.victim.project.id, `create table seen as select '${plain}' as mark`);
  const admin = new pg.Client(await platform.admin());
  await admin.connect();
  await admin.query('CHECKPOINT').finally(() => admin.end());
  const folder = path.join(await realpath(path.join(platform.home, 'postgres')), 'base');
  let found = 0;
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    const bytes = await readFile(file).catch(() => Buffer.alloc(0));
    if (bytes.includes(plain)) found++;
    for (const secret of [env, git, scene.victim.project.service_role_key]) {
      assert.not.ok(bytes.includes(secret), `${file} holds a secret`);
    }
  }
  assert.ok(found > 0, 'unencrypted text is found, so these are the right files');
});

async function logs(): Promise<Place[]> {
  const folder = path.join(platform.home, 'logs');
  const files = await readdir(folder);
  assert.ok(files.length > 0, 'there are logs');
  return Promise.all(files.map(async (file) => [file, await readFile(path.join(folder, file), 'utf8')] as const));
}

async function processArguments(): Promise<Place[]> {
  if (process.platform !== 'linux') return [];
  const pids = await processTree(platform.pid);
  assert.ok(pids.length > 1, 'the platform has processes');
  const read = (pid: number) => readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return Promise.all(pids.map(async (pid) => [`process ${pid}`, await read(pid)] as const));
}

test.run();
