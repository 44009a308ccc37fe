/** Tests the SSH client against a real sshd on loopback, which is OpenSSH's, as on a machine. */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isAlive, until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { quoted } from './quote.js';
import { SshClient } from './ssh-client.js';
import { SshError } from './ssh-error.js';
import { hasSshd, Sshd } from './sshd.testing.js';

if (!hasSshd) console.log('# skipped: it needs openssh-server');

const ssh = suite('ssh client');
const test = hasSshd ? ssh : ssh.skip;
const { signal } = new AbortController();
let sshd: Sshd;
let client: SshClient;

const clientOf = (more: { hostKey?: string; key?: string } = {}) =>
  new SshClient({
    host: '127.0.0.1',
    port: sshd.port,
    user: sshd.user,
    privateKey: sshd.key(more.key ?? 'client'),
    hostKey: more.hostKey,
  });

ssh.before(async () => {
  if (hasSshd) sshd = await Sshd.start();
});
ssh.before.each(() => {
  if (hasSshd) client = clientOf();
});
ssh.after.each(() => client?.close());
ssh.after(() => sshd?.close());

async function errorOf(work: Promise<unknown>): Promise<SshError> {
  const error = await work.then(
    () => undefined,
    (reason) => reason,
  );
  assert.instance(error, SshError);
  return error as SshError;
}

test('the first connection returns the fingerprint of the host key', async () => {
  const hostKey = await client.hostKey(signal);
  assert.is(hostKey, sshd.fingerprint('host'));
  const pinned = clientOf({ hostKey });
  assert.is((await pinned.run(['echo', 'there'], {}, signal)).stdout, 'there\n');
  await pinned.close();
});

test('a connection is refused before anything is sent when the host key is another one', async () => {
  const wary = clientOf({ hostKey: sshd.fingerprint('other-host') });
  const error = await errorOf(wary.run(['true'], {}, signal));
  assert.is(error.kind, 'host-key-changed');
  assert.not(error.retryable);
  assert.ok(error.message.includes(sshd.fingerprint('host')));
  await wary.close();
});

test('a client without a pinned key pins that of its first connection', async () => {
  await client.hostKey(signal);
  await sshd.run('other-host');
  try {
    await until(async () => (await errorOf(client.run(['true'], {}, signal))).kind === 'host-key-changed', 'refused');
  } finally {
    await sshd.run('host');
  }
});

test('a key that the machine does not accept, and a port without a server, are different errors', async () => {
  const stranger = clientOf({ key: 'stranger' });
  assert.is((await errorOf(stranger.hostKey(signal))).kind, 'unauthorized');
  await stranger.close();
  const nobody = new SshClient({ host: '127.0.0.1', port: 1, user: 'a', privateKey: sshd.key('client'), hostKey: '' });
  const error = await errorOf(nobody.hostKey(signal));
  assert.is(error.kind, 'unreachable');
  assert.ok(error.retryable);
  await nobody.close();
});

test('arguments reach the program unchanged', async () => {
  const args = ["it's", '$HOME `id` "q" \\', 'a\nb', '', '*', ';', '-n', 'ü', '~', '{a,b}', '#'];
  const { stdout } = await client.run(['printf', '%s\\0', ...args], {}, signal);
  assert.equal(stdout.split('\0').slice(0, -1), args);
  assert.throws(() => quoted(['a\0b']), 'NUL');
});

test('a command gets its input, and returns its output and an expected exit code', async () => {
  const result = await client.run(['sh', '-c', 'cat; echo wrong >&2; exit 3'], { input: 'in', exitCodes: [3] }, signal);
  assert.equal(result, { exitCode: 3, stdout: 'in', stderr: 'wrong\n' });
  const error = await errorOf(client.run(['sh', '-c', 'echo wrong >&2; exit 4'], {}, signal));
  assert.is(error.kind, 'command-failed');
  assert.is(error.exitCode, 4);
  assert.is(error.message, 'sh ended with exit code 4: wrong');
});

/** Runs a command that never ends, and returns the error and whether its process is alive. */
async function endless(options: object, { abort = signal, says = ':' } = {}) {
  const file = path.join(sshd.folder, `pid-${performance.now()}`);
  const script = `echo $$ > ${file}; while :; do ${says}; sleep 0.01; done`;
  const work = client.run(['sh', '-c', script], options, abort);
  const [reason] = await Promise.all([
    work.catch((error) => error),
    until(() => existsSync(file) && readFileSync(file, 'utf8').trim(), 'the command runs'),
  ]);
  return { reason, pid: Number(readFileSync(file, 'utf8')) };
}

test('a command whose output is cut returns the bytes up to the limit', async () => {
  const options = { mostBytes: 50, isCut: true };
  const { stdout, stderr, exitCode } = await client.run(['sh', '-c', 'while echo more; do :; done'], options, signal);
  assert.equal([stdout, stderr, exitCode], ['more\n'.repeat(10), '', 0]);
  assert.is((await client.run(['echo', 'all'], options, signal)).stdout, 'all\n');
  const failed = await errorOf(client.run(['sh', '-c', 'echo some; exit 3'], options, signal));
  assert.equal([failed.kind, failed.exitCode], ['command-failed', 3]);
});

test('a command ends on the machine by its timeout when it writes too much, takes too long or is aborted', async () => {
  const loud = await endless({ mostBytes: 50 }, { says: 'echo more' });
  assert.is(loud.reason.kind, 'output-too-large');
  const slow = await endless({ timeoutMs: 300 });
  assert.is(slow.reason.kind, 'timeout');
  const abort = new AbortController();
  setTimeout(() => abort.abort(new Error('the operator stops')), 300);
  const aborted = await endless({ timeoutMs: 1_500 }, { abort: abort.signal });
  assert.is(aborted.reason.message, 'the operator stops');
  for (const { pid } of [loud, slow, aborted]) await until(() => !isAlive(pid), 'the process ended', 20_000);
  assert.is((await client.run(['echo', 'still there'], {}, signal)).stdout, 'still there\n');
});

test('commands at the same time use one connection, and the next one opens another after it was cut', async () => {
  const results = await Promise.all([1, 2, 3].map((n) => client.run(['echo', String(n)], {}, signal)));
  assert.equal(
    results.map(({ stdout }) => stdout),
    ['1\n', '2\n', '3\n'],
  );
  assert.is(sshd.sessions().length, 1);
  const work = errorOf(client.run(['sleep', '60'], { timeoutMs: 2_000 }, signal));
  setTimeout(() => sshd.cut(), 200);
  const error = await work;
  assert.is(error.kind, 'closed');
  assert.ok(error.retryable);
  await Promise.all([1, 2, 3].map(() => client.run(['true'], {}, signal)));
  assert.is(sshd.sessions().length, 1);
});

test('a closed client ends its connection and rejects calls', async () => {
  await client.hostKey(signal);
  const work = errorOf(client.run(['sleep', '60'], { timeoutMs: 2_000 }, signal));
  await client.close();
  assert.is((await work).kind, 'closed');
  assert.is((await errorOf(client.run(['true'], {}, signal))).kind, 'closed');
  await until(() => sshd.sessions().length === 0, 'the session ended', 5_000);
});

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

test('an uploaded file replaces the former one with its content and permissions', async () => {
  const bytes = Buffer.alloc(3_000_001, 'slipway');
  const [from, to] = [path.join(sshd.folder, 'from'), path.join(sshd.folder, "to it's")];
  writeFileSync(from, bytes);
  writeFileSync(to, 'former');
  await client.upload({ from, to, sha256: sha256(bytes), mode: 0o750 }, signal);
  assert.ok(readFileSync(to).equals(bytes));
  assert.is(statSync(to).mode & 0o777, 0o750);
});

test('an upload with another checksum, or into a missing folder, leaves the former file and no other', async () => {
  const [from, to] = [path.join(sshd.folder, 'from'), path.join(sshd.folder, 'kept')];
  writeFileSync(from, 'new');
  writeFileSync(to, 'former');
  const upload = { from, to, sha256: sha256(Buffer.from('other')), mode: 0o644 };
  assert.is((await errorOf(client.upload(upload, signal))).kind, 'checksum');
  assert.is(readFileSync(to, 'utf8'), 'former');
  const nowhere = { ...upload, to: path.join(sshd.folder, 'missing/file') };
  assert.is((await errorOf(client.upload(nowhere, signal))).kind, 'upload-failed');
  const absent = { ...upload, from: path.join(sshd.folder, 'absent') };
  assert.is((await errorOf(client.upload(absent, signal))).kind, 'upload-failed');
  assert.equal(
    readdirSync(sshd.folder).filter((name) => name.endsWith('.part')),
    [],
  );
});

test('an upload rejects when the connection is cut, and the next one succeeds', async () => {
  const [from, to] = [path.join(sshd.folder, 'large'), path.join(sshd.folder, 'after-cut')];
  const bytes = Buffer.alloc(60_000_000);
  writeFileSync(from, bytes);
  const upload = { from, to, sha256: sha256(bytes), mode: 0o644 };
  const work = errorOf(client.upload(upload, signal));
  await until(() => readdirSync(sshd.folder).some((name) => name.endsWith('.part')), 'the upload began');
  sshd.cut();
  assert.is((await work).kind, 'closed');
  await client.upload(upload, signal);
  assert.is(statSync(to).size, bytes.length);
});

test('an aborted upload leaves the former file and no other', async () => {
  const [from, to] = [path.join(sshd.folder, 'large'), path.join(sshd.folder, 'kept')];
  const bytes = Buffer.alloc(60_000_000);
  writeFileSync(from, bytes);
  writeFileSync(to, 'former');
  const abort = new AbortController();
  await client.hostKey(signal);
  const earlier = new Set(readdirSync(sshd.folder));
  const parts = () => readdirSync(sshd.folder).filter((name) => name.endsWith('.part') && !earlier.has(name));
  const work = client.upload({ from, to, sha256: sha256(bytes), mode: 0o644 }, abort.signal).catch((error) => error);
  await until(() => parts().length > 0, 'the upload began');
  abort.abort(new Error('the operator stops'));
  assert.is(((await work) as Error).message, 'the operator stops');
  assert.is(readFileSync(to, 'utf8'), 'former');
  assert.equal(parts(), []);
});

ssh.run();
