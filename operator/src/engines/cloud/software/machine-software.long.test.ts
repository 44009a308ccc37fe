/**
 * Tests the desired state on a real machine, of the server of the provider's API that SLIPWAY_TEST_CLOUD_URL names.
 */
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import path from 'node:path';
import pg from 'pg';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { applyState, type StateReport } from './apply-state.js';
import { installSoftware } from './install-software.js';
import { TestMachine } from './machine.testing.js';
import { ensurePack } from './pack/pack.js';
import { requestOf } from './request.testing.js';
import { FIREWALL_UNIT } from './state/firewall.js';
import { hashOf, type MachineState, type StateRequest, stateOf } from './state/state.js';

const url = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!url) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');

const life = suite('the state of a machine');
const test = url ? life : life.skip;
const { signal } = new AbortController();
const PASSWORD = 'pass"word; %s $1';
const VALUE = '"; %h $HOME `id` \\ # end';
const MEBIBYTE = 2 ** 20;
let machine: TestMachine;
let request: StateRequest;
let state: MachineState;
/** False if the provider's machines may not load packet filters, as in a container without CAP_NET_ADMIN. */
let filters = true;

/** Responds with the path, the bytes of the body, a variable and an argument. An upgraded connection echoes. */
const ECHO = `require('node:http').createServer((request, response) => {
  let bytes = 0;
  request.on('data', (chunk) => (bytes += chunk.length));
  request.on('end', () => response.end([request.url, bytes, process.env.VALUE, process.argv[1]].join()));
}).on('upgrade', (request, socket) => {
  socket.write(['HTTP/1.1 101 OK', 'Upgrade: websocket', 'Connection: Upgrade', '', ''].join('\\r\\n'));
  socket.pipe(socket);
}).listen('/run/slipway/storage/http.sock')`.replaceAll(/\s*\n\s*/g, ' ');

async function apply(): Promise<StateReport> {
  const begun = performance.now();
  const all = await applyState(machine.ssh, state, signal);
  const isFilter = (text: string) => !filters && text.includes(FIREWALL_UNIT);
  const [repaired, down] = [all.repaired, all.down].map((texts) => texts.filter((text) => !isFilter(text)));
  const report = { ...all, repaired, down } as StateReport;
  console.log(`# applied in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${report.repaired.length} repaired`);
  return report;
}

/** Runs SQL as the superuser, over Postgres' socket, by the release's Node. */
const sql = (text: string) =>
  machine.sh(`cd /opt/slipway/current/dataplane && ../bin/node --input-type=module --eval '
    import pg from "pg"; import { readFileSync } from "node:fs";
    const password = readFileSync("/etc/slipway/postgres/superuser-password", "utf8").trim();
    const client = new pg.Client({ host: "/run/slipway/postgres", user: "slipway", password, database: "postgres" });
    await client.connect();
    const { rows } = await client.query(readFileSync(0, "utf8"));
    console.log(JSON.stringify(rows)); await client.end();' <<'SQL'\n${text}\nSQL`);

const pooled = (user: string, password: string) =>
  new pg.Client({
    host: machine.address,
    port: 6543,
    user,
    password,
    database: 'postgres',
    ssl: { ca: request.certificate.chain, checkServerIdentity: () => undefined },
  });

async function pooledError(user: string, password: string): Promise<string> {
  const client = pooled(user, password);
  const error = await client.connect().then(
    () => undefined,
    (reason) => reason,
  );
  await client.end().catch(() => undefined);
  return error?.message ?? 'none';
}

const get = (pathname: string, body?: Buffer) =>
  new Promise<{ status: number | undefined; text: string }>((resolve, reject) => {
    const { address: host } = machine;
    const call = httpsRequest({ host, path: pathname, method: body ? 'POST' : 'GET', rejectUnauthorized: false });
    call.on('error', reject).on('response', (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, text }));
    });
    call.end(body);
  });

life.before(async () => {
  if (!url) return;
  machine = await TestMachine.create(url, ['1-65535']);
  const pack = await ensurePack(path.join(machine.folder, 'packs'), signal);
  await installSoftware(machine.ssh, pack, signal);
  filters = await machine.mayFilter();
  const services = {
    ...requestOf().services,
    storage: {
      command: ['/opt/slipway/current/bin/node', '--eval', ECHO, '--', VALUE] as [string, ...string[]],
      environment: { VALUE },
    },
  };
  request = requestOf({ release: pack.id, certificate: machine.certificate(), services });
  state = stateOf(request);
});
life.after(() => machine?.delete());

test('every unit runs when the state is applied to a new machine', async () => {
  const report = await apply();
  assert.equal(report.down, [], await machine.sh('journalctl -u "slipway-*" --no-pager -n 60; exit 0'));
  assert.is(report.hash, hashOf(state));
  assert.ok(report.repaired.includes('package nftables, which was missing'), report.repaired.join('\n'));
});

test('nothing changes when the state is applied again', async () => {
  const before = await machine.sh('systemctl show --property=MainPID "slipway-*.service"');
  const report = await apply();
  assert.equal(report.repaired, []);
  assert.is(await machine.sh('systemctl show --property=MainPID "slipway-*.service"'), before);
});

test('Postgres answers at its socket and listens at no TCP port', async () => {
  const rows = await sql("SELECT current_setting('wal_level') AS wal, current_setting('shared_buffers') AS buffers");
  assert.is(rows, '[{"wal":"logical","buffers":"512MB"}]');
  assert.is(await sql("SELECT setting FROM pg_settings WHERE name = 'listen_addresses'"), '[{"setting":""}]');
  const connects = `require('node:net').connect('/run/slipway/postgres/.s.PGSQL.5432')
    .on('error', ({ code }) => console.log(code))`;
  const stranger = 'setpriv --reuid=65534 --regid=65534 --clear-groups';
  assert.is(await machine.sh(`${stranger} /opt/slipway/current/bin/node --eval "${connects}"`), 'EACCES');
});

test('a role logs in over TLS by pgbouncer, and superusers, wrong passwords and plain text are refused', async () => {
  await sql(`CREATE ROLE shop LOGIN PASSWORD '${PASSWORD}'; SELECT 1`);
  const client = pooled('shop', PASSWORD);
  await client.connect();
  assert.equal((await client.query('SELECT current_user AS me')).rows, [{ me: 'shop' }]);
  await client.end();
  assert.match(await pooledError('shop', 'wrong'), /auth|password/i);
  for (const user of ['slipway', 'slipway_pgbouncer', 'pgbouncer']) {
    assert.match(await pooledError(user, user === 'slipway' ? request.superuserPassword : ''), /auth|password|user/i);
  }
  const { host, port, user, password, database } = pooled('shop', PASSWORD);
  const plain = new pg.Client({ host, port, user, password: password as string, database });
  const error = await plain.connect().catch((reason) => reason);
  assert.match(error.message, /SSL|TLS/);
});

test('nginx passes on uploads, and answers 502 in JSON for a service that is down', async () => {
  const down = await get('/auth/v1/health');
  assert.is(down.status, 502);
  assert.match(JSON.parse(down.text).message, 'The service auth is not running');
  assert.is((await get('/other')).status, 404);
  const { status, text } = await get('/storage/v1/object', Buffer.alloc(20 * MEBIBYTE));
  assert.is(status, 200);
  assert.is(text, `/storage/v1/object,${20 * MEBIBYTE},${VALUE},${VALUE}`);
});

test('nginx passes on an upgraded connection in both directions', async () => {
  const headers = { Connection: 'Upgrade', Upgrade: 'websocket' };
  const call = httpsRequest({ host: machine.address, path: '/storage/v1/socket', headers, rejectUnauthorized: false });
  const received = await new Promise((resolve, reject) => {
    call.on('error', reject).on('response', ({ statusCode }) => reject(new Error(`status ${statusCode}`)));
    call.on('upgrade', (_response, socket: Socket) => {
      socket.on('data', (chunk) => {
        socket.destroy();
        resolve(chunk.toString());
      });
      socket.write('there and back');
    });
    call.end();
  });
  assert.is(received, 'there and back');
});

test('an account other than root can not reach the metadata service', async () => {
  const fetched = 'curl --silent --max-time 5 http://169.254.169.254/hetzner/v1/userdata >/dev/null; echo $?';
  const as = (account: string) => machine.sh(`setpriv --reuid=${account} --clear-groups sh -c '${fetched}'`);
  if (!filters) return console.log('# skipped: the machines may not load packet filters');
  assert.is(await machine.sh(fetched), '0');
  for (const account of ['65534', 'slipway-functions', 'slipway-postgres']) assert.is(await as(account), '7', account);
});

for (const [name, damage, phrase] of [
  ['a stopped unit', 'systemctl stop slipway-nginx', 'unit slipway-nginx, which was stopped'],
  ['a disabled unit', 'systemctl disable -q slipway-auth', 'unit slipway-auth, which was disabled'],
  [
    'an edited file',
    'echo "# more" >> /etc/slipway/nginx/nginx.conf',
    'file /etc/slipway/nginx/nginx.conf, which had other content',
  ],
  [
    'a readable secret',
    'chmod 644 /etc/slipway/services/auth.env',
    'file /etc/slipway/services/auth.env, which had other permissions',
  ],
  [
    'a removed rule',
    'nft flush chain inet slipway input; nft add rule inet slipway input accept',
    'the packet filter, whose rules were changed',
  ],
  [
    'an added setting of a unit',
    `mkdir -p /etc/systemd/system/slipway-auth.service.d
      printf "[Service]\\nUser=root\\n" > /etc/systemd/system/slipway-auth.service.d/a.conf
      systemctl daemon-reload; systemctl restart slipway-auth`,
    'file /etc/systemd/system/slipway-auth.service.d, which should not exist',
  ],
] as const) {
  test(`${name} is repaired and named`, async () => {
    if (!filters && damage.startsWith('nft')) return console.log('# skipped: the machines may not load packet filters');
    const before = await machine.sh('systemctl show --property=MainPID slipway-postgres slipway-storage');
    await machine.sh(damage);
    const report = await apply();
    assert.equal(report.repaired, [phrase]);
    assert.equal(report.down, []);
    assert.is(await machine.sh('systemctl show --property=MainPID slipway-postgres slipway-storage'), before);
    assert.equal((await apply()).repaired, []);
  });
}

test('a new certificate is served by nginx without a restart, and by pgbouncer', async () => {
  const pid = () => machine.sh('systemctl show --property=MainPID slipway-nginx slipway-postgres');
  const before = await pid();
  request = { ...request, certificate: machine.certificate() };
  state = stateOf(request);
  assert.is((await apply()).repaired.length, 2);
  assert.is(await pid(), before);
  const served = await machine.sh('openssl s_client -connect 127.0.0.1:443 </dev/null 2>/dev/null | openssl x509');
  assert.is(served, request.certificate.chain.trim());
  const client = pooled('shop', PASSWORD);
  await client.connect();
  await client.end();
});

test('only the unit whose environment changes restarts, and a crashed one comes back', async () => {
  const pids = () =>
    machine.sh('systemctl show --property=MainPID --value slipway-auth slipway-realtime slipway-nginx');
  const before = (await pids()).split(/\n+/);
  const auth = { ...request.services.auth, environment: { WAITS: 'longer' } };
  state = stateOf({ ...request, services: { ...request.services, auth } });
  assert.equal((await apply()).repaired, ['file /etc/slipway/services/auth.env, which had other content']);
  const after = (await pids()).split(/\n+/);
  assert.is.not(after[0], before[0]);
  assert.equal(after.slice(1), before.slice(1));
  await machine.sh('systemctl kill -s KILL slipway-realtime; sleep 3; systemctl is-active slipway-realtime');
});

life.run();
