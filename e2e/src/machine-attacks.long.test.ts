/**
 * Tests attacks from and on the machines of dedicated projects: by SQL, by a function, by files in storage, and from
 * outside. The owner of a project is the attacker.
 */
import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { until } from '@slipway/testing';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type MachineShell, openShell } from './machine-shell.js';
import { Management, type ProjectView } from './management.js';
import { directly, loginOf } from './network.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { cloudUrl, TestCloud } from './test-cloud.js';
import { clientOf } from './todos.js';

const PROVISIONED_MS = 300_000;
const PORTS = [22, 443, 6543];
const LAST_PORT = 65_535;
const SCANS_AT_ONCE = 1024;
const SCAN_MS = 1_000;
const METADATA = 'http://169.254.169.254/hetzner/v1/userdata';

/** Returns what a fetch or a connection to each target gives. */
const PROBE = `Deno.serve(async (request) => {
  const { urls, places } = await request.json();
  const results = {};
  for (const url of urls) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(3000) });
      results[url] = (await response.text()).slice(0, 20000);
    } catch (error) { results[url] = 'refused: ' + error.name; }
  }
  for (const [hostname, port] of places) {
    try {
      const connection = await Deno.connect({ hostname, port });
      connection.close();
      results[hostname + ':' + port] = 'connected';
    } catch (error) { results[hostname + ':' + port] = 'refused: ' + error.name; }
  }
  for (const file of ['/etc/passwd', '/proc/1/environ', '/var/lib/slipway/project/project.json', '/etc/slipway']) {
    try { results[file] = await Deno.readTextFile(file); } catch (error) { results[file] = 'refused: ' + error.name; }
  }
  try { results.env = Object.keys(Deno.env.toObject()).sort().join(); } catch (error) { results.env = error.name; }
  try { results.run = new Deno.Command('/bin/sh').outputSync().code; } catch (error) { results.run = error.name; }
  return Response.json(results);
});`;

const attacks = suite('attacks on machines');
const test = cloudUrl ? attacks : attacks.skip;

/** No other text on this machine has it. */
const token = `token-${randomBytes(12).toString('hex')}`;
let cloud: TestCloud;
let platform: RunningPlatform;
let person: Management;
let project: ProjectView;
let other: ProjectView;
let shell: MachineShell;
let otherShell: MachineShell;
let owner: pg.Client;

attacks.before(async () => {
  if (!cloudUrl) return;
  cloud = new TestCloud(token);
  platform = await startPlatform(undefined, cloud.settings);
  person = await Management.register(platform);
  const ids = [];
  for (const name of ['attacker', 'victim']) ids.push((await person.createProject(name, undefined, 'dedicated')).id);
  [project, other] = (await Promise.all(ids.map((id) => person.untilHealthy(id, PROVISIONED_MS)))) as [
    ProjectView,
    ProjectView,
  ];
  shell = await openShell(platform, project);
  otherShell = await openShell(platform, other);
  owner = new pg.Client({ ...loginOf(project.db_url), ssl: { rejectUnauthorized: false } });
  await owner.connect();
});
attacks.after(async () => {
  await owner?.end().catch(() => undefined);
  shell?.close();
  otherShell?.close();
  await platform?.remove();
  await cloud?.close();
});

const sqlError = async (sql: string) =>
  (
    await owner.query(sql).then(
      () => undefined,
      (error: Error) => error,
    )
  )?.message;

let results: Record<string, string> | undefined;
async function probed(): Promise<Record<string, string>> {
  if (results) return results;
  const created = await person.call<{ id: number }>('POST', `/projects/${project.id}/functions`, {
    name: 'probe',
    code: PROBE,
    verify_jwt: true,
  });
  assert.is(created.status, 201, JSON.stringify(created.body));
  await person.call('POST', `/projects/${project.id}/functions/${created.body.id}/deploy`);
  const targets = (address: string) => [22, 443, 5432, 6543, 8000].map((port) => [address, port]);
  const body = {
    urls: [METADATA, 'http://169.254.169.254/latest/user-data', 'http://[::ffff:169.254.169.254]/'],
    places: ['127.0.0.1', shell.address, otherShell.address].flatMap(targets).concat([['10.245.0.1', platform.port]]),
  };
  const found = await until(
    async () => {
      const { data, error } = await clientOf(project, directly).functions.invoke('probe', { body });
      return error ? undefined : (data as Record<string, string>);
    },
    'the function answers',
    60_000,
  );
  results = found;
  return found as Record<string, string>;
}

test('nothing in the user data of a machine is valid after the installation', async () => {
  const userData = await shell.sh(`curl -s ${METADATA}`);
  assert.match(userData, '#cloud-config');
  const { ed25519_private: former } = JSON.parse(userData.split('\n')[1] ?? '').ssh_keys as Record<string, string>;
  assert.ok(former?.includes('PRIVATE KEY'));
  const present = await shell.sh('cat /etc/ssh/slipway_host_ed25519_key; ls /etc/ssh');
  assert.not.match(present, 'ssh_host_');
  assert.not.ok(present.includes((former as string).trim().split('\n')[2] as string));
  assert.match(await shell.sh('sshd -T | grep -i hostkey'), /^hostkey \/etc\/ssh\/slipway_host_ed25519_key$/im);
  for (const secret of [token, project.service_role_key, ...Object.values(privateOf(shell.record))]) {
    assert.not.ok(userData.includes(secret.trim()));
  }
});

/** Returns the values that nobody but the operator may have. */
const privateOf = ({ sshPrivateKey = '', superuserPassword = '', certificateKey = '' }: Record<string, string>) => ({
  sshPrivateKey,
  superuserPassword,
  certificateKey,
});

test('a function reaches neither the metadata service, nor this machine, another one or the platform', async () => {
  for (const [target, result] of Object.entries(await probed())) {
    if (/^(http|\d)/.test(target)) assert.match(result, /^refused: /, target);
  }
});

test('a function reads no file of the machine, no environment of a unit, and starts no program', async () => {
  const found = await probed();
  for (const [target, result] of Object.entries(found)) {
    if (target.startsWith('/')) assert.match(result, /^refused: /, target);
  }
  assert.match(String(found.run), /NotCapable|PermissionDenied/);
  assert.not.match(found.env ?? '', /SLIPWAY|GOTRUE|PASSWORD/);
});

test('SQL of the owner reads no file, runs no program and connects nowhere', async () => {
  for (const sql of [
    `copy (select 1) to program 'curl ${METADATA}'`,
    "create table stolen (line text); copy stolen from '/etc/passwd'",
    "select pg_read_file('/etc/slipway/services/auth.env')",
    "select pg_ls_dir('/etc/slipway')",
    "select lo_import('/etc/passwd')",
    'create extension dblink',
    'create extension postgres_fdw',
    "create function run() returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
    'create extension plpython3u',
    "alter system set archive_command = 'curl'",
    'set role slipway',
    'grant slipway_pgbouncer to current_user',
    'set role slipway_pgbouncer',
    'select rolpassword from pg_authid',
    'select * from pg_hba_file_rules',
    'create role more superuser',
    'create database more',
    'select pg_reload_conf()',
  ]) {
    assert.match(
      (await sqlError(sql)) ?? 'it was executed',
      /permission denied|must be|not permitted|does not exist|is not available|only roles|not have|denied/i,
      sql,
    );
  }
});

test('db_url refuses the superuser, the roles of the platform, and connections without TLS', async () => {
  const login = loginOf(project.db_url);
  for (const [user, password] of [
    ['slipway', shell.record.superuserPassword],
    ['slipway_pgbouncer', ''],
    ['slipway_realtime', 'x'],
    ['pgbouncer', 'x'],
  ]) {
    const client = new pg.Client({ ...login, user, password: password as string, ssl: { rejectUnauthorized: false } });
    const error = await client.connect().catch((reason: Error) => reason);
    assert.instance(error, Error, user as string);
    await client.end().catch(() => undefined);
  }
  const plain = new pg.Client(login);
  assert.match(String(await plain.connect().catch((reason: Error) => reason)), /TLS|SSL/);
});

test('names in storage do not leave its folder', async () => {
  const { storage } = clientOf({ ...project, anon_key: project.service_role_key }, directly);
  await storage.createBucket('loot');
  for (const name of ['../../../../etc/slipway/services/auth.env', '..%2f..%2fproject/project.json', '/etc/passwd']) {
    const { data } = await storage.from('loot').download(name);
    assert.is(data, null, name);
    await storage.from('loot').upload(name, 'planted');
  }
  assert.not.match(await shell.sh('grep -rl planted /etc /var/lib/slipway/project /opt/slipway 2>/dev/null'), /./);
});

test('the token of the provider is on no machine, and in no process of the platform', async () => {
  // The pattern does not match itself in the arguments of grep.
  const pattern = token.replace('t', '[t]');
  const files = await shell.sh(`grep -rlsa --exclude-dir=proc --exclude-dir=sys '${pattern}' /`);
  assert.is(files, '');
  const processesThere = await shell.sh(`cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | grep -ca '${pattern}'`);
  assert.is(processesThere, '0');
  const processes = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  for (const each of processes) {
    for (const file of ['environ', 'cmdline']) {
      const text = textOf(`/proc/${each}/${file}`);
      assert.not.ok(text.includes(token), `${each}/${file}: ${textOf(`/proc/${each}/cmdline`).slice(0, 200)}`);
    }
  }
});

function textOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch {
    return '';
  }
}

test('secrets of the operator are on no machine but as far as it needs them', async () => {
  const { sshPrivateKey = '', bootPrivateKey = '' } = shell.record;
  for (const key of [sshPrivateKey, bootPrivateKey]) {
    const line = key.trim().split('\n')[2] as string;
    const places = `/etc /root /home /opt/slipway /run/slipway /var/lib/slipway /tmp`;
    assert.is(await shell.sh(`grep -rlsaF '${line}' ${places}`), '');
  }
  const readable = await shell.sh(
    'find /etc/slipway /var/lib/slipway /run/slipway /opt/slipway -xdev -type f -perm -o=r ' +
      `-exec grep -laF -e '${shell.record.superuserPassword}' -e '${project.service_role_key}' {} +`,
  );
  assert.is(readable, '');
});

test('from outside only SSH, HTTPS and pgbouncer answer', async () => {
  const open: number[] = [];
  let port = 1;
  const scan = async () => {
    while (port <= LAST_PORT) {
      const each = port++;
      if (await answers(shell.address, each)) open.push(each);
    }
  };
  await Promise.all(Array.from({ length: SCANS_AT_ONCE }, scan));
  assert.equal(
    open.toSorted((one, another) => one - another),
    PORTS,
  );
});

const answers = (host: string, port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ host, port });
    const end = (result: boolean) => {
      socket.destroy();
      resolve(result);
    };
    socket.setTimeout(SCAN_MS, () => end(false));
    socket.once('connect', () => end(true)).once('error', () => end(false));
  });

test('a machine knows no login at another machine', async () => {
  const settings = (route: string) =>
    `curl -sk https://${otherShell.address}${route}/auth/v1/settings -H 'apikey: ${project.service_role_key}' ` +
    "-w ' %{http_code}'";
  const tries = [
    `ssh -o BatchMode=yes -o StrictHostKeyChecking=no root@${otherShell.address} true; echo "ssh $?"`,
    settings(''),
    settings(`/p/${other.ref}`),
  ];
  const [ssh = '', ...https] = await Promise.all(tries.map((script) => shell.sh(script)));
  assert.match(ssh, 'ssh 255');
  for (const answer of https) assert.match(answer, / 401$/);
});

attacks.run();
