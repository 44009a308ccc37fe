/**
 * Tests the services on a dedicated project's machine over REST and kubectl: their states, logs, restarts and failures.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { MACHINE_UNITS, type Project, RESTARTABLE_UNITS } from '@slipway/crds';
import { KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from './management.js';
import { directly } from './network.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { cloudUrl, TestCloud } from './test-cloud.js';
import { TODOS_SQL, usedByTwoPeople } from './todos.js';

const PROVISIONED_MS = 300_000;
/** The operator looks every 20 s. */
const SEEN_MS = 60_000;
/** The operator repairs a machine every three minutes. */
const REPAIRED_MS = 240_000;

const machines = suite('services of a dedicated project');
const test = cloudUrl ? machines : machines.skip;
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-services-'));

let cloud: TestCloud;
let platform: RunningPlatform;
let person: Management;
let project: ProjectView;

machines.before(async () => {
  if (!cloudUrl) return;
  cloud = new TestCloud();
  platform = await startPlatform(undefined, cloud.settings);
  person = await Management.register(platform);
  const { id } = await person.createProject('own', undefined, 'dedicated');
  project = await person.untilHealthy(id, PROVISIONED_MS);
  await person.query(id, TODOS_SQL);
});
machines.after(async () => {
  await platform?.remove();
  await cloud?.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Listed {
  services: Record<
    string,
    { status: string; unit: string; restarts: number; main_pid: number; memory_bytes: number | null }
  >;
  observed_at: string;
}
interface Restarted {
  ok: boolean;
  service: string;
  systemd_unit: string;
  status: string;
  code?: string;
  detail?: string;
}
const listOf = async (id = project.id) => person.call<Listed>('GET', `/projects/${id}/services`);
const serviceOf = async (name: string) => (await listOf()).body.services[name];
const pidOf = async (name: string) => (await serviceOf(name))?.main_pid;
const restart = (service: string, id = project.id) =>
  person.call<Restarted>('POST', `/projects/${id}/services/${service}/restart`);
const areAllRunning = ({ body }: Awaited<ReturnType<typeof listOf>>) =>
  Object.values(body.services).every(({ status }) => status === 'running');

/** Uses the Kubernetes API as kubectl does. */
async function withKubernetes<T>(work: (client: KubeClient, at: string) => Promise<T>): Promise<T> {
  const client = await KubeClient.connect(await loadKubeConfig(platform.kubeconfig));
  try {
    return await work(client, `/apis/slipway.dev/v1alpha1/projects/${project.ref}`);
  } finally {
    await client.close();
  }
}

/** Runs a command on the machine with the operator's key. */
async function onMachine(command: string): Promise<string> {
  return withKubernetes(async (client, at) => {
    const { metadata, status } = await client.get<Project>(at);
    const secret = await client.get<{ data: Record<string, string> }>(
      `/api/v1/namespaces/slipway-system/secrets/machine.${metadata.uid}`,
    );
    const key = path.join(folder, 'key');
    writeFileSync(key, Buffer.from(secret.data.sshPrivateKey ?? '', 'base64'), { mode: 0o600 });
    const options = ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'LogLevel=ERROR'];
    const args = [...options, '-i', key, `root@${status?.server?.address}`, command];
    return (await promisify(execFile)('ssh', args)).stdout.trim();
  });
}

test('the list of services has all units of the machine, and they run', async () => {
  const listed = await until(() => listOf(), areAllRunning, SEEN_MS);
  assert.equal(Object.keys(listed.body.services).sort(), [...MACHINE_UNITS].sort());
  for (const [name, { unit, main_pid, memory_bytes, restarts }] of Object.entries(listed.body.services)) {
    assert.is(unit, `slipway-${name}`);
    assert.is(String(main_pid), await onMachine(`systemctl show --value --property=MainPID ${unit}`), name);
    // Machines of the test cloud do not account for memory.
    assert.ok(memory_bytes === null || memory_bytes > 100_000, `${name}: ${memory_bytes}`);
    assert.is(restarts, 0, name);
  }
  assert.ok(Date.now() - Date.parse(listed.body.observed_at) < REPAIRED_MS);
});

test('a project of another type has no machine with services, and other names are rejected', async () => {
  const { id } = await person.createProject('shared');
  for (const answer of [await listOf(id), await restart('auth', id), await logsOf('auth', '', id)]) {
    assert.equal([answer.status, (answer.body as unknown as Restarted).code], [400, 'wrong_type']);
  }
  for (const name of ['postgres', 'pgbouncer', 'functions', 'ssh', 'slipway-auth', 'auth;reboot', '__proto__']) {
    assert.is((await restart(encodeURIComponent(name))).status, 400, name);
  }
  assert.is((await person.call('POST', `/projects/${project.id}/reprovision`)).status, 400);
  assert.is((await person.call('POST', `/projects/${id}/reprovision`)).status, 400);
});

interface Logs {
  items: { time: string; level: string; message: string }[];
  code?: string;
}
const logsOf = (service: string, query = '', id = project.id) =>
  person.call<Logs>('GET', `/projects/${id}/services/${service}/logs${query}`);
const hasLine =
  (message: RegExp, level?: string) =>
  ({ body }: { body: Logs }): boolean =>
    body.items.some((line) => message.test(line.message) && (level === undefined || line.level === level));

const headers = () => ({ apikey: project.anon_key, 'content-type': 'application/json' });
const WRONG_PASSWORD = 'a wrong password of nobody';
const SQL_PASSWORD = 'a-password-in-a-statement';

/** Makes each unit log a line, some of them with secrets in the request. */
async function makeLines(): Promise<void> {
  const credentials = JSON.stringify({ email: 'nobody@example.com', password: WRONG_PASSWORD });
  const address = `${project.project_url}/auth/v1/token?grant_type=password`;
  await fetch(address, { method: 'POST', headers: headers(), body: credentials });
  await person.query(project.id, `alter role nobody_there password '${SQL_PASSWORD}'`).catch(() => undefined);
  await person.query(project.id, `do $$ begin raise warning 'a key %', '${project.service_role_key}'; end $$`);
  const url = new URL(project.db_url);
  url.password = WRONG_PASSWORD;
  await onMachine(
    'systemctl stop slipway-storage; ' +
      `curl -sk 'https://127.0.0.1/storage/v1/bucket?apikey=${project.service_role_key}' >/dev/null; ` +
      'systemctl start slipway-storage; ' +
      `systemd-run --wait --quiet sh -c 'echo a line of the system, of slipway-auth.service'`,
  );
  await promisify(execFile)('psql', [url.href, '-c', 'select 1'], {
    env: { ...process.env, PGSSLMODE: 'require' },
  }).catch(() => undefined);
}

test('the log of each service has its lines, and a rejected login is in that of auth', async () => {
  await makeLines();
  const expected: Record<string, [message: RegExp, level: string]> = {
    auth: [/request rejected .*path=\/token.* status=400 code=invalid_credentials/, 'warn'],
    postgrest: [/service started service=rest/, 'info'],
    storage: [/service started service=storage/, 'info'],
    realtime: [/service started service=realtime/, 'info'],
    functions: [/functions isolation chosen/, 'info'],
    nginx: [/storage\/http\.sock failed .*GET \/storage\/v1\/bucket\?\[redacted\]/, 'error'],
    postgres: [/ERROR: role "nobody_there" does not exist/, 'error'],
    pgbouncer: [/password authentication failed/, 'info'],
  };
  assert.equal(Object.keys(expected).sort(), [...MACHINE_UNITS].sort());
  for (const [name, [message, level]] of Object.entries(expected)) {
    const { status, body } = await until(() => logsOf(name), hasLine(message), SEEN_MS).catch(() => logsOf(name));
    assert.is(status, 200, name);
    assert.ok(hasLine(message)({ body }), `${name}: ${JSON.stringify(body.items.slice(-10))}`);
    if (name !== 'pgbouncer') assert.ok(hasLine(message, level)({ body }), `${name} ${level}`);
    const times = body.items.map(({ time }) => time);
    assert.equal(times, times.toSorted(), name);
  }
});

test('no log has a secret of the project, a statement, or a line of another unit', async () => {
  const { database, keys } = await withKubernetes(async (client) => {
    const read = async (name: string) =>
      (await client.get<{ data: Record<string, string> }>(`/api/v1/namespaces/p-${project.ref}/secrets/${name}`)).data;
    return { database: await read('project-database'), keys: await read('project-keys') };
  });
  const values = Object.entries({ ...database, ...keys })
    .filter(([name]) => /password|key|secret|url/.test(name) && !name.startsWith('rotation'))
    .map(([, value]) => Buffer.from(value, 'base64').toString());
  assert.ok(values.length >= 6, 'keys and passwords');
  const hidden = [...values, WRONG_PASSWORD, SQL_PASSWORD, 'alter role', 'a line of the system', 'systemd[1]'];
  for (const name of MACHINE_UNITS) {
    const text = JSON.stringify((await logsOf(name, '?limit=1000')).body);
    for (const value of hidden) assert.not.ok(text.includes(value), `${name}: ${value.slice(0, 12)}`);
  }
  assert.ok(hasLine(/WARNING: a key \[redacted\]/, 'warn')(await logsOf('postgres')));
});

test('limit, level and since choose lines of a log', async () => {
  const all = (await logsOf('postgres', '?limit=1000')).body.items;
  const one = (await logsOf('postgres', '?limit=1')).body.items;
  assert.equal(one, all.slice(-1));
  const errors = (await logsOf('postgres', '?level=error')).body.items;
  assert.equal(
    errors,
    all.filter(({ level }) => level === 'error'),
  );
  assert.ok(errors.length > 0 && errors.length < all.length);
  const since = all.at(-3)?.time ?? '';
  const recent = (await logsOf('postgres', `?since=${encodeURIComponent(since)}`)).body.items;
  assert.equal(
    recent,
    all.filter(({ time }) => time >= since),
  );
  assert.equal((await logsOf('postgres', '?since=2999-01-01T00:00:00Z')).body.items, []);
  const refused = ['?limit=0', '?limit=1001', '?limit=1;reboot', '?level=all', '?since=today', '?since=-1h', '?more=1'];
  for (const query of refused) assert.is((await logsOf('postgres', query)).status, 400, query);
  for (const name of ['ssh', 'slipway-auth', 'auth.service', '*', '__proto__', 'auth;reboot', '../auth']) {
    assert.is((await logsOf(encodeURIComponent(name))).status, 400, name);
  }
});

for (const name of RESTARTABLE_UNITS) {
  test(`a restart of ${name} starts another process`, async () => {
    const before = await pidOf(name);
    const begun = performance.now();
    const { status, body } = await restart(name);
    console.log(`# ${name} restarted within ${Math.round(performance.now() - begun)} ms`);
    assert.is(status, 200, JSON.stringify(body));
    assert.equal(body, { ok: true, service: name, systemd_unit: `slipway-${name}`, status: 'running' });
    const after = await pidOf(name);
    assert.ok(after && after !== before, `${before} and ${after}`);
    assert.is(String(after), await onMachine(`systemctl show --value --property=MainPID slipway-${name}`));
  });
}

test('clients use the project after the restarts', async () => {
  await usedByTwoPeople(project, directly);
});

test('simultaneous restarts of a service all succeed', async () => {
  const answers = await Promise.all(Array.from({ length: 4 }, () => restart('storage')));
  assert.equal(
    answers.map(({ status }) => status),
    [200, 200, 200, 200],
    JSON.stringify(answers),
  );
});

test('a changed number in the Project restarts the service once', async () => {
  const before = await pidOf('auth');
  await withKubernetes((client, at) => client.patch(at, { spec: { machine: { restarts: { auth: 77 } } } }));
  const after = await until(
    () => pidOf('auth'),
    (pid) => pid !== before,
    SEEN_MS,
  );
  const status = await withKubernetes((client, at) => client.get<Project>(at));
  assert.is(status.status?.server?.restarts?.auth?.number, 77);
  await new Promise((resolve) => setTimeout(resolve, 25_000));
  assert.is(await pidOf('auth'), after, 'not again');
});

test('a restart during which the platform is killed is completed by the next operator', async () => {
  const before = await onMachine('systemctl show --value --property=MainPID slipway-realtime');
  void restart('realtime').catch(() => undefined);
  const requested = await until(async () => {
    const { spec } = await withKubernetes((client, at) => client.get<Project>(at));
    return spec.machine?.restarts?.realtime === 2;
  }, 'the restart is requested');
  assert.ok(requested);
  await platform.kill();
  platform = await startPlatform(platform, cloud.settings);
  await until(
    () => withKubernetes((client, at) => client.get<Project>(at)),
    ({ status: seen }) => {
      const { number, error } = seen?.server?.restarts?.realtime ?? {};
      return number === 2 && error === undefined;
    },
    SEEN_MS,
  );
  const after = await onMachine('systemctl show --value --property=MainPID slipway-realtime');
  assert.is.not(after, before);
  // A process may end by itself, so that its id does not show whether the operator restarts it again.
  const record = () => onMachine('cat /var/lib/slipway/machine/restarts/realtime');
  const recorded = await record();
  await new Promise((resolve) => setTimeout(resolve, 25_000));
  assert.is(await record(), recorded, 'not again');
});

test('a killed process is in the list with another id', async () => {
  const before = await pidOf('postgrest');
  await onMachine(`kill -9 ${before}`);
  const after = await until(
    () => serviceOf('postgrest'),
    (service) => service?.status === 'running' && service.main_pid !== before,
    SEEN_MS,
  );
  assert.ok(after && after.restarts >= 1);
});

const health = () => fetch(`${project.project_url}/auth/v1/health`, { headers: { apikey: project.anon_key } });

test('a stopped service is in the list, its requests get a 502, and the operator starts it again', async () => {
  await onMachine('systemctl stop slipway-auth');
  await until(
    () => serviceOf('auth'),
    (service) => service?.status === 'stopped',
    SEEN_MS,
  );
  assert.is((await health()).status, 502);
  await until(
    () => serviceOf('auth'),
    (service) => service?.status === 'running',
    REPAIRED_MS,
  );
  assert.is((await health()).status, 200);
});

test('a restart that fails on the machine is a 500, and the next one succeeds', async () => {
  await onMachine('systemctl stop slipway-nginx; mv /usr/sbin/nginx /usr/sbin/nginx.away');
  const { status, body } = await restart('nginx');
  await onMachine('mv /usr/sbin/nginx.away /usr/sbin/nginx');
  assert.equal([status, body.code], [500, 'restart_failed']);
  console.log(`# ${body.detail}`);
  assert.match(body.detail ?? '', 'slipway-nginx');
  assert.is((await restart('nginx')).status, 200);
  assert.is((await health()).status, 200);
});

test('a restart is a 500 while the machine accepts no SSH, and is done when it does again', async () => {
  await onMachine(
    'systemd-run --on-active=45 systemctl start ssh; systemd-run sh -c "sleep 1; systemctl stop ssh; pkill sshd"',
  );
  await new Promise((resolve) => setTimeout(resolve, 3_000));
  const before = (await serviceOf('storage'))?.main_pid;
  const { status, body } = await restart('storage');
  console.log(`# ${body.detail}`);
  assert.equal([status, body.code], [500, 'restart_failed']);
  const logs = await fetch(`${platform.url}/projects/${project.id}/services/storage/logs`, {
    headers: { authorization: `Bearer ${person.token}` },
  });
  const { code } = (await logs.json()) as Logs;
  assert.equal([logs.status, code, logs.headers.get('retry-after')], [503, 'unavailable', '10']);
  await until(
    () => pidOf('storage'),
    (pid) => pid !== undefined && pid !== before,
    120_000,
  );
  await until(
    () => logsOf('storage'),
    ({ status: again }) => again === 200,
    SEEN_MS,
  );
});

test('a restart is a 500 after the machine was deleted at the provider', async () => {
  const [server] = await cloud.list('servers');
  await cloud.call('DELETE', `/servers/${server?.id}`);
  const begun = performance.now();
  const { status, body } = await restart('auth');
  console.log(`# after ${Math.round(performance.now() - begun)} ms: ${body.detail}`);
  assert.equal([status, body.code], [500, 'restart_failed']);
});

machines.run();
