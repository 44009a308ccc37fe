// biome-ignore-all lint/suspicious/noTemplateCurlyInString: systemd's variables look like templates.
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { requestOf } from '../request.testing.js';
import { SERVICES } from './service.js';
import { postgresSizes } from './sizes.js';
import { hashOf, type StateRequest, stateOf, textOf } from './state.js';

const request = requestOf();

const withAuth = (more: object): StateRequest => ({
  ...request,
  services: { ...request.services, auth: { ...request.services.auth, ...more } },
});

const fileOf = (of: StateRequest, path: string) => {
  const found = stateOf(of).files.find((file) => file.path === path);
  assert.ok(found, path);
  return found as { content: string; mode: number };
};

test('the same request has the same hash, and each value of it changes the hash', () => {
  const hash = hashOf(stateOf(request));
  assert.is(hashOf(stateOf(requestOf())), hash);
  for (const other of [
    { ...request, release: 'other' },
    { ...request, machine: { cores: 4, memoryGb: 8 } },
    { ...request, superuserPassword: 'other' },
    withAuth({ environment: { A: '2' } }),
    { ...request, files: [{ path: '/etc/slipway/more', mode: 0o600, owner: 'root:root', content: '' }] },
  ]) {
    assert.is.not(hashOf(stateOf(other)), hash);
  }
});

test('secrets are only in files that other accounts can not read, and in no unit file', () => {
  const secrets = ['the secret of auth', request.superuserPassword, request.certificate.privateKey];
  const state = stateOf(withAuth({ environment: { SECRET: secrets[0] } }));
  for (const secret of secrets) {
    const files = state.files.filter(({ content }) => content.includes(secret as string));
    assert.is(files.length, 1);
    assert.is((files[0] as { mode: number }).mode & 0o007, 0);
    assert.not.match((files[0] as { path: string }).path, '/systemd/');
  }
});

for (const hostile of ['a\nExecStart=/bin/sh', 'a\r', 'a\u0000b', '\u0085', '\u2028']) {
  test(`a value with a control character is refused (${JSON.stringify(hostile)})`, () => {
    for (const bad of [
      withAuth({ environment: { A: hostile } }),
      withAuth({ command: ['/bin/true', hostile] }),
      withAuth({ command: [`/bin/true${hostile}`] }),
      withAuth({ writable: [`/var/lib/${hostile}`] }),
      { ...request, superuserPassword: hostile },
      { ...request, release: hostile },
      { ...request, certificate: { ...request.certificate, chain: `${hostile}${request.certificate.chain}` } },
    ]) {
      assert.throws(() => stateOf(bad), /control character|is not in PEM|release id|absolute path/);
    }
  });
}

test('quotes, percent signs, dollars, backslashes and semicolons reach a service unchanged', () => {
  const value = '"; %h $HOME ${A} `id` \\';
  const of = withAuth({ environment: { A: value }, command: ['/bin/true', value] });
  assert.is(fileOf(of, '/etc/slipway/services/auth.env').content, 'A="\\"; %h \\$HOME \\${A} \\`id\\` \\\\"\n');
  const unit = fileOf(of, '/etc/systemd/system/slipway-auth.service').content;
  assert.ok(unit.includes('\nExecStart=/bin/true "\\"; %%h $$HOME $${A} `id` \\\\"\n'), unit);
});

test('a program, a folder or a name of a variable can not add privileges or settings', () => {
  for (const bad of ['+/bin/true', '!/bin/true', 'true', '/bin/true x', '/bin/../true', '-/bin/true', '/bin/%h', '']) {
    assert.throws(() => stateOf(withAuth({ command: [bad] })), /absolute path/);
    assert.throws(() => stateOf(withAuth({ writable: [bad] })), /absolute path/);
  }
  for (const name of ['A=B', 'A B', '', '1A', '#A']) {
    assert.throws(() => stateOf(withAuth({ environment: { [name]: '1' } })), /name of an environment variable/);
  }
});

test('no program except the firewall runs as root, and each one has limits and an account', () => {
  const files = stateOf(request).files.filter(({ path }) => /slipway-(?!firewall)[a-z]+\.service$/.test(path));
  assert.is(files.length, SERVICES.length + 3);
  for (const { content } of files) {
    assert.match(content, /\nUser=slipway-[a-z]+\n/);
    for (const line of ['NoNewPrivileges=yes', 'ProtectSystem=strict', 'Restart=always', 'IPAddressDeny=']) {
      assert.ok(content.includes(`\n${line}`), line);
    }
    assert.match(content, /\nMemoryMax=\d+M\nTasksMax=\d+\n/);
  }
  assert.not.match(textOf(stateOf(request)), 'undefined');
});

test('Postgres gets a quarter of the memory for its buffers, and its sorts fit into another quarter', () => {
  for (const memoryGb of [2, 4, 8, 16]) {
    const sizes = postgresSizes({ cores: 2, memoryGb });
    assert.is(sizes.shared_buffers, `${memoryGb * 256}MB`);
    assert.ok(sizes.max_connections >= 100 && sizes.max_connections <= 300);
    assert.ok(Number.parseInt(sizes.work_mem, 10) * sizes.max_connections <= memoryGb * 256);
  }
});

test.run();
