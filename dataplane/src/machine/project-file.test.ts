import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { type MachineProject, machineProjectText } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { tenantWithoutDatabase } from '../testing/tenant.js';
import { ProjectFile } from './project-file.js';
import { documentOf } from './testing.js';

const FIRST = documentOf(tenantWithoutDatabase('shop'), 'of the reader');

let folder: string;
let file: string;
let opened: ProjectFile | undefined;
let calls: string[];
let logged: PassThrough;

test.before.each(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'slipway-document-'));
  file = path.join(folder, 'project.json');
  write(FIRST);
});
test.after.each(async () => {
  await opened?.close();
  opened = undefined;
  rmSync(folder, { recursive: true, force: true });
});

/** Replaces the file as the operator does. */
function write(project: object, to = file): void {
  writeFileSync(`${to}.new`, JSON.stringify(project));
  renameSync(`${to}.new`, to);
}

function open(from = file): ProjectFile {
  calls = [];
  logged = new PassThrough().setEncoding('utf8');
  opened = new ProjectFile(from, pino(logged));
  opened.watch({
    onChange: ({ ref }) => calls.push(`change ${ref}`),
    onForget: (ref) => calls.push(`forget ${ref}`),
    onEnvironment: (ref) => calls.push(`environment ${ref}`),
  });
  return opened;
}

const revision = (wanted: string) => until(() => opened?.revision === wanted, `revision ${wanted}`);

test('the tenant has exactly the known members of a login', () => {
  const owner = { ...FIRST.logins.owner, ssl: true };
  write({ ...FIRST, logins: { ...FIRST.logins, owner } });
  assert.equal(open().now.owner, { ...FIRST.logins.owner, project: 'shop' });
});

test('other refs are no projects', () => {
  const project = open();
  assert.is(project.tenant('shop'), project.now);
  assert.is(project.tenant('other'), undefined);
});

for (const [what, changes, expected] of [
  ['a key', { apiKeys: { anon: 'another', serviceRole: 'another' } }, ['change shop']],
  ['a setting', { authConfig: { GOTRUE_JWT_EXP: '60' } }, ['change shop']],
  ['a variable of functions', { environment: { GREETING: 'good day' } }, ['environment shop']],
  ['the plan', { plan: 'team' }, ['forget shop']],
  ['a password', { logins: loginsWith({ password: 'the next' }) }, ['change shop']],
  ['the database', { logins: loginsWith({ database: 'another' }) }, ['forget shop']],
  ['only the revision', {}, []],
] as const) {
  test(`a changed document calls the listener once for ${what}`, async () => {
    const before = open().now;
    write({ ...FIRST, ...changes, revision: '2' });
    await revision('2');
    assert.equal(calls, expected);
    const isNew = expected.some((call) => !call.startsWith('environment'));
    assert.is(opened?.now !== before, isNew);
  });
}

function loginsWith(more: Partial<MachineProject['logins']['owner']>): MachineProject['logins'] {
  const { authenticator, authAdmin, owner } = FIRST.logins;
  return {
    authenticator: { ...authenticator, ...more },
    authAdmin: { ...authAdmin, ...more },
    owner: { ...owner, ...more },
  };
}

test('the next and the previous secret verify tokens beside the present one', () => {
  const { secret } = FIRST.jwt;
  write({ ...FIRST, jwt: { secret, nextSecret: 'the next', previousSecret: secret } });
  assert.equal(open().now.otherJwtSecrets, ['the next']);
});

test('a document of another project or without a member is logged, and the former one stays', async () => {
  const project = open();
  let lines = '';
  logged.on('data', (chunk: string) => {
    lines += chunk;
  });
  write({ ...FIRST, ref: 'other', revision: '2' });
  await until(() => /project file rejected/.test(lines), 'the log line');
  write({ ...FIRST, jwt: {}, revision: '3' });
  await until(() => /jwt/.test(lines), 'the second log line');
  assert.equal([project.revision, project.now.ref, calls], ['1', 'shop', []]);
  write({ ...FIRST, revision: '4' });
  await revision('4');
});

test('SIGHUP makes the program read the file, also behind a link that leads to another folder', async () => {
  const current = path.join(folder, 'current');
  for (const [name, document] of [
    ['one', FIRST],
    ['two', { ...FIRST, revision: '2' }],
  ] as const) {
    mkdirSync(path.join(folder, name));
    write(document, path.join(folder, name, 'project.json'));
  }
  symlinkSync('one', current);
  open(path.join(current, 'project.json'));
  symlinkSync('two', `${current}.new`);
  renameSync(`${current}.new`, current);
  assert.is(opened?.revision, '1');
  process.kill(process.pid, 'SIGHUP');
  await revision('2');
});

test('a missing or malformed file is an error that names it, at the start', () => {
  assert.throws(
    () => new ProjectFile(path.join(folder, 'none.json'), pino()),
    /none\.json can not be read \(ENOENT\)$/,
  );
  write({ ...FIRST, ref: 'Secret' });
  assert.throws(
    () => new ProjectFile(file, pino()),
    (error: Error) => /project\.json is malformed: ref /.test(error.message) && !error.message.includes('Secret'),
  );
});

test('the text that the operator writes is read', () => {
  writeFileSync(file, machineProjectText({ ...FIRST, revision: '7' }));
  assert.is(open().revision, '7');
});

test.run();
