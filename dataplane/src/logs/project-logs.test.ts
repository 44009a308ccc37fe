/** Tests logs of projects for their owners: what is kept, for how long, and that no other project reads it. */
import { appendFile, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { MOST_AGE_MS, ProjectLogs } from './project-logs.js';

const log = pino({ level: 'silent' });
const folders: string[] = [];
test.after(async () => {
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

const newFolder = async () => {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-logs-'));
  folders.push(folder);
  return folder;
};

function logsIn(folder: string | undefined, projects: Record<string, string> = { shop: 'uid-1' }) {
  let now = Date.parse('2026-01-05T10:00:00Z');
  const logs = new ProjectLogs({
    folder,
    uidOf: (ref) => projects[ref],
    uids: () => new Set(Object.values(projects)),
    log,
    now: () => new Date(now),
  });
  return {
    logs,
    projects,
    later: (ms: number) => {
      now += ms;
    },
    write: (message: string, level: 'info' | 'warn' | 'error' = 'info', ref = 'shop') =>
      logs.write(ref, 'auth', { level, message }),
    messages: async (query: Partial<Parameters<ProjectLogs['read']>[2]> = {}, ref = 'shop') =>
      (await logs.read(ref, 'auth', { limit: 100, ...query }))?.map(({ message }) => message),
  };
}

test('lines are returned newest last, by level, time and number', async () => {
  const { write, later, messages, logs } = logsIn(undefined);
  write('one');
  later(1_000);
  write('two', 'warn');
  later(1_000);
  write('three', 'error');
  assert.equal(await messages(), ['one', 'two', 'three']);
  assert.equal(await messages({ level: 'warn' }), ['two', 'three']);
  assert.equal(await messages({ since: Date.parse('2026-01-05T10:00:01Z') }), ['two', 'three']);
  assert.equal(await messages({ limit: 1 }), ['three']);
  assert.equal(await logs.read('shop', 'rest', { limit: 9 }), []);
  assert.is(await logs.read('other', 'auth', { limit: 9 }), undefined);
  await logs.close();
});

test('lines are there after a restart, also if the last one was cut by a crash', async () => {
  const folder = await newFolder();
  const first = logsIn(folder);
  first.write('before');
  await first.logs.close();
  await appendFile(path.join(folder, 'uid-1', 'auth.log'), '{"time":"2026-01-05T10:00');
  const second = logsIn(folder);
  second.write('after');
  assert.equal(await second.messages(), ['before', 'after']);
  await second.logs.close();
  const third = logsIn(folder);
  assert.equal(await third.messages(), ['before', 'after']);
  await third.logs.close();
});

test('a new project with the ref of a deleted one reads none of its lines, and the sweep deletes them', async () => {
  const folder = await newFolder();
  const { logs, projects, write, messages } = logsIn(folder);
  write('of the former');
  await until(async () => (await readdir(folder)).length === 1, 'the file');
  projects.shop = 'uid-2';
  assert.equal(await messages(), []);
  write('of the new one');
  assert.equal(await messages(), ['of the new one']);
  await logs.sweep();
  await logs.close();
  assert.equal(await readdir(folder), ['uid-2']);
});

test('floods of many projects displace no line of another project', async () => {
  const loud = Array.from({ length: 50 }, (_, index) => `loud-${index}`);
  const projects = Object.fromEntries([...loud, 'shop'].map((ref) => [ref, `uid of ${ref}`]));
  const { write, messages, logs } = logsIn(undefined, projects);
  for (const ref of loud) for (let line = 0; line < 20; line += 1) write('flood', 'warn', ref);
  write('quiet', 'warn');
  assert.equal(await messages(), ['quiet']);
  assert.is((await messages({}, 'loud-49'))?.length, 10);
  await logs.close();
});

test('lines older than seven days are not returned', async () => {
  const { write, later, messages, logs } = logsIn(await newFolder());
  write('old');
  later(MOST_AGE_MS - 1);
  write('new');
  assert.equal(await messages(), ['old', 'new']);
  later(2);
  assert.equal(await messages(), ['new']);
  await logs.close();
});

test('a flood has ten lines a second and the number of the others, and does not displace another service', async () => {
  const { write, messages, logs } = logsIn(undefined);
  for (let count = 0; count < 500; count += 1) write('flood');
  logs.write('shop', 'rest', { level: 'info', message: 'other' });
  await until(async () => (await messages())?.length === 11, 'the number');
  const [last] = (await logs.read('shop', 'auth', { limit: 1 })) ?? [];
  assert.equal([last?.message, last?.left_out], ['more lines in this second', 490]);
  assert.is((await logs.read('shop', 'rest', { limit: 9 }))?.length, 1);
  await logs.close();
});

test.run();
