/**
 * Tests the services of a dedicated project on a real machine, of the server of the provider's API that
 * SLIPWAY_TEST_CLOUD_URL names, with supabase-js through the machine's nginx.
 */
import path from 'node:path';
import { PROJECT_SERVICES } from '@slipway/crds';
import {
  authAdminRole,
  authenticatorRole,
  databaseOf,
  type MachineProject,
  machineProjectText,
  ownerRole,
  replicationSlotOf,
} from '@slipway/installation';
import {
  buildSpare,
  ensureTemplate,
  newSpareId,
  openReplication,
  prepareCluster,
  takeSpare,
} from '@slipway/project-database';
import { until } from '@slipway/testing';
import { createClient, type RealtimeClientOptions } from '@supabase/supabase-js';
import pg from 'pg';
import { Agent, getGlobalDispatcher, install, setGlobalDispatcher } from 'undici';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { issueApiKey } from '../../../controllers/project/api-keys.js';
import { applyState, type StateReport } from './apply-state.js';
import { installSoftware } from './install-software.js';
import { TestMachine } from './machine.testing.js';
import { ensurePack } from './pack/pack.js';
import { projectFile, projectServices } from './project-services.js';
import { requestOf } from './request.testing.js';
import { FIREWALL_UNIT } from './state/firewall.js';
import { LOCAL_URL } from './state/nginx.js';
import { PROJECT_FILE, runtimeFolder, socketOf } from './state/paths.js';
import { SERVICES, type ServiceUnit } from './state/service.js';
import { type StateRequest, stateOf } from './state/state.js';

const url = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!url) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');
const services = suite('the services of a project on its machine');
const test = url ? services : services.skip;
const { signal } = new AbortController();

const REF = 'shop';
const REPLICATION_PASSWORD = 'of-the-reader-of-changes';
const SECRET = 'the first secret of the project, 32 characters or more';
const FILE = Buffer.alloc(5 * 2 ** 20, 'five mebibytes ');
const AL = { email: 'al@example.com', password: 'correct horse' };
const PATIENCE_MS = 60_000;
const UNITS = SERVICES.map((name) => `slipway-${name}`);
const POSTGRES_SOCKET = '/run/slipway/postgres';

let machine: TestMachine;
let postgres: string;
let request: StateRequest;
let document: MachineProject;
let filters = true;

const seconds = (from: number) => ((performance.now() - from) / 1000).toFixed(1);
const keysOf = (secret: string) => {
  const [anon, serviceRole] = (['anon', 'service_role'] as const).map((role) =>
    issueApiKey(REF, role, secret, new Date()),
  );
  return { anon: anon as string, serviceRole: serviceRole as string };
};

const GREETING = `Deno.serve(async (request) => {
  const url = Deno.env.get('SUPABASE_URL') + '/rest/v1/news?select=body';
  const headers = { apikey: Deno.env.get('SUPABASE_SERVICE_ROLE_KEY') };
  const news = await fetch(url, { headers });
  const from = request.headers.get('x-forwarded-for');
  return Response.json({ greeting: Deno.env.get('GREETING'), status: news.status, rows: await news.json(), from });
});`;

/** Tries what each member of the body names, and responds with the names of those that succeeded. */
const THIEF = `Deno.serve(async (request) => {
  const { files, urls, sockets, places } = await request.json();
  const succeeded = [];
  const attempt = async (name, work) => {
    const late = new Promise((_, reject) => setTimeout(reject, 3000));
    await Promise.race([work(), late]).then(() => succeeded.push(name), () => undefined);
  };
  await Promise.all([
    ...files.map((file) => attempt(file, () => Deno.readTextFile(file))),
    ...urls.map((url) => attempt(url, () => fetch(url))),
    ...sockets.map((path) => attempt(path, () => Deno.connect({ transport: 'unix', path }))),
    ...places.map(([hostname, port]) => attempt(hostname + ':' + port, () => Deno.connect({ hostname, port }))),
  ]);
  return Response.json(succeeded);
});`;

const HOARDER = `Deno.serve(async (request) => {
  const all = [];
  for (let i = 0; i < 4000; i++) all.push(new Uint8Array(2 ** 20).fill(1));
  return new Response(String(all.length));
});`;

async function apply(): Promise<StateReport> {
  const begun = performance.now();
  const report = await applyState(machine.ssh, stateOf(request), signal);
  const isFilter = (text: string) => !filters && text.includes(FIREWALL_UNIT);
  const [repaired, down] = [report.repaired, report.down].map((texts) => texts.filter((text) => !isFilter(text)));
  console.log(`# applied in ${seconds(begun)} s, ${repaired?.length} repaired`);
  return { ...report, repaired, down } as StateReport;
}

/** Applies a further revision of the document, and waits until all services use it. */
async function change(more: Partial<MachineProject>): Promise<StateReport> {
  document = { ...document, ...more, revision: String(Number(document.revision) + 1) };
  request = { ...request, files: [projectFile(machineProjectText(document))] };
  const report = await apply();
  for (const unit of SERVICES) {
    await until(async () => (await revisionOf(unit)) === document.revision, `${unit} to use ${document.revision}`);
  }
  return report;
}

const revisionOf = async (unit: ServiceUnit) =>
  (JSON.parse(await machine.sh(`curl -sf --unix-socket ${socketOf(unit)} http://machine/readyz`)) as MachineProject)
    .revision;
const mainPids = () => machine.sh(`systemctl show --property=MainPID --value ${UNITS.join(' ')}`);
const journal = () => machine.sh('journalctl -u "slipway-*" --no-pager -n 80; exit 0');

async function deploy(name: string, code: string): Promise<void> {
  const body = Buffer.from(JSON.stringify({ version: 1, code, verifyJwt: true })).toString('base64');
  const socket = `${runtimeFolder('functions')}/control.sock`;
  const answer = await machine.sh(
    `echo ${body} | base64 -d | curl -s --unix-socket ${socket} -X PUT --data-binary @- http://machine/${REF}/${name}`,
  );
  assert.equal(JSON.parse(answer), { state: 'ready' }, answer);
}

const superuser = (database = 'postgres') =>
  new pg.Client({ host: postgres, user: 'slipway', password: request.superuserPassword, database });

async function asOwner(sql: string): Promise<pg.QueryResult> {
  const { user, password, database } = document.logins.owner;
  const session = new pg.Client({ host: postgres, user, password, database });
  await session.connect();
  try {
    return await session.query(sql);
  } finally {
    await session.end();
  }
}

async function prepareDatabase(): Promise<void> {
  const connect = async (database: string) => {
    const session = superuser(database);
    await session.connect();
    return session;
  };
  const admin = await connect('postgres');
  await prepareCluster(admin);
  await openReplication(admin, REPLICATION_PASSWORD);
  await ensureTemplate(admin, connect);
  const id = newSpareId();
  await buildSpare(admin, connect, id);
  const { owner, authenticator, authAdmin } = document.logins;
  const passwords = { owner: owner.password, authenticator: authenticator.password, authAdmin: authAdmin.password };
  await takeSpare(admin, id, REF, passwords);
  await admin.end();
}

function firstDocument(): MachineProject {
  const login = (user: string) => ({
    host: POSTGRES_SOCKET,
    port: 5432,
    database: databaseOf(REF),
    user,
    password: `password of ${user}`,
  });
  return {
    revision: '1',
    ref: REF,
    type: 'dedicated',
    plan: 'free',
    services: [...PROJECT_SERVICES],
    url: `https://${machine.address}`,
    jwt: { secret: SECRET },
    apiKeys: keysOf(SECRET),
    logins: {
      authenticator: login(authenticatorRole(REF)),
      authAdmin: login(authAdminRole(REF)),
      owner: login(ownerRole(REF)),
    },
    replication: { slot: replicationSlotOf(REF), password: REPLICATION_PASSWORD },
    authConfig: { GOTRUE_MAILER_AUTOCONFIRM: 'true' },
    environment: { GREETING: 'hello' },
  };
}

/** `below`: a path before those of the services, such as `/p/shop`. */
const client = (key = document.apiKeys.anon, below = '') =>
  createClient(`${document.url}${below}`, key, {
    auth: { persistSession: false, autoRefreshToken: false },
    realtime: { params: { apikey: key } } as RealtimeClientOptions,
  });

const admin = () => client(document.apiKeys.serviceRole);

/** A route of each service that needs a key. */
const CLOSED: Readonly<Record<ServiceUnit, string>> = {
  auth: '/auth/v1/settings',
  postgrest: '/rest/v1/news',
  storage: '/storage/v1/bucket',
  realtime: '/realtime/v1/api/broadcast',
  functions: '/functions/v1/greeting',
};

async function statusOf(unit: ServiceUnit, key: string, below = ''): Promise<number> {
  const headers = { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const body = unit === 'realtime' ? { method: 'POST', body: '{"messages":[]}' } : {};
  const response = await fetch(`${document.url}${below}${CLOSED[unit]}`, { headers, ...body });
  await response.arrayBuffer();
  return response.status;
}

const allServe = async () => {
  const statuses = await Promise.all(SERVICES.map((unit) => statusOf(unit, document.apiKeys.serviceRole)));
  return statuses.every((status) => status < 300);
};

/** Receives a broadcast and a change of a table. */
async function useRealtime(): Promise<void> {
  const received: unknown[] = [];
  const [sender, receiver] = [client(), admin()];
  const channel = receiver.channel('room');
  channel.on('broadcast', { event: 'e' }, ({ payload }) => received.push(payload.text));
  channel.on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'news' }, (inserted) =>
    received.push(inserted.new.body),
  );
  let isListening = false;
  channel.on('system', {}, ({ extension, status }: { extension: string; status: string }) => {
    isListening ||= extension === 'postgres_changes' && status === 'ok';
  });
  channel.subscribe();
  await until(() => isListening, 'the channel to read changes', PATIENCE_MS);
  const speaking = sender.channel('room');
  await new Promise<void>((resolve) => speaking.subscribe((status) => status === 'SUBSCRIBED' && resolve()));
  await speaking.send({ type: 'broadcast', event: 'e', payload: { text: 'said' } });
  await until(() => received.includes('said'), 'the broadcast');
  const body = `printed at ${performance.now()}`;
  await asOwner(`insert into public.news (body) values ('${body}')`);
  await until(() => received.includes(body), 'the change');
  await Promise.all([sender, receiver].map((each) => each.removeAllChannels()));
}

async function download(): Promise<Buffer | undefined> {
  const { data } = await admin().storage.from('files').download('a/b.bin');
  return data ? Buffer.from(await data.arrayBuffer()) : undefined;
}

/** Uses each service as a client does. */
async function useAll(): Promise<void> {
  const user = client();
  assert.is((await user.auth.signInWithPassword(AL)).error, null);
  assert.equal((await user.from('notes').select('body')).data, [{ body: 'of al' }]);
  assert.ok((await download())?.equals(FILE));
  const { data, error } = await user.functions.invoke('greeting');
  assert.is(error, null);
  assert.is(data.status, 200);
  await useRealtime();
}

/**
 * Returns MiB. Where systemd may not use the memory controller, as on the test cloud's machines, it has no value: then
 * the proportional share of each page of the unit's processes is counted.
 */
async function memoryOf(unit: string): Promise<number> {
  const current = await machine.sh(`systemctl show --property=MemoryCurrent --value ${unit}`);
  if (/^\d+$/.test(current)) return Number(current) / 2 ** 20;
  const pids = `systemctl show --property=MainPID --value ${unit}`;
  const pss = await machine.sh(`cat /proc/$(${pids})/smaps_rollup | sed -n 's/^Pss: *\\([0-9]*\\) kB/\\1/p'`);
  return Number(pss) / 2 ** 10;
}

services.before(async () => {
  if (!url) return;
  machine = await TestMachine.create(url, ['1-65535']);
  filters = await machine.mayFilter();
  const pack = await ensurePack(path.join(machine.folder, 'packs'), signal);
  const begun = performance.now();
  await installSoftware(machine.ssh, pack, signal);
  console.log(`# the software is installed in ${seconds(begun)} s`);
  const certificate = machine.certificate();
  // Makes fetch and WebSocket, which supabase-js uses, trust the machine's certificate.
  install();
  setGlobalDispatcher(new Agent({ connect: { ca: certificate.chain } }));
  document = firstDocument();
  const files = [projectFile(machineProjectText(document))];
  const programs = projectServices({ trustedProxies: ['203.0.113.0/24'] });
  request = requestOf({ release: pack.id, certificate, services: programs, files });
});
services.after(async () => {
  await getGlobalDispatcher().close();
  await machine?.delete();
});

test('every unit runs when the state is applied to a new machine', async () => {
  const report = await apply();
  assert.equal(report.down, [], await journal());
  postgres = await machine.forward(`${POSTGRES_SOCKET}/.s.PGSQL.5432`);
  await prepareDatabase();
  await asOwner(
    `create table public.notes (id bigint generated always as identity primary key,
       user_id uuid default auth.uid(), body text);
     alter table public.notes enable row level security;
     create policy own on public.notes using (user_id = auth.uid()) with check (user_id = auth.uid());
     create table public.news (id bigint generated always as identity primary key, body text);
     alter publication supabase_realtime add table public.news`,
  );
  await deploy('greeting', GREETING);
  await until(allServe, 'all services to respond', PATIENCE_MS);
});

test('nothing changes when the state is applied again', async () => {
  const before = await mainPids();
  assert.equal((await apply()).repaired, []);
  assert.is(await mainPids(), before);
  const restarts = await machine.sh(`systemctl show --property=NRestarts --value ${UNITS.join(' ')}`);
  assert.equal([...new Set(restarts.split(/\n+/))], ['0']);
});

test('a user signs up, and sees only their own rows', async () => {
  const [al, bo] = [client(), client()];
  assert.is((await al.auth.signUp(AL)).error, null);
  assert.is((await al.from('notes').insert({ body: 'of al' })).error, null);
  assert.is((await bo.auth.signUp({ email: 'bo@example.com', password: 'correct horse' })).error, null);
  assert.is((await bo.from('notes').insert({ body: 'of bo' })).error, null);
  assert.equal((await al.from('notes').select('body')).data, [{ body: 'of al' }]);
  assert.equal((await client().from('notes').select('body')).data, []);
});

test('an object of 5 MiB is uploaded and downloaded', async () => {
  const { storage } = admin();
  assert.is((await storage.createBucket('files')).error, null);
  assert.is((await storage.from('files').upload('a/b.bin', new Blob([FILE]))).error, null);
  assert.ok((await download())?.equals(FILE));
});

test('a channel receives a broadcast, and a change of a table', useRealtime);

test('a function is called, and its own requests reach the project', async () => {
  await asOwner(`insert into public.news (body) values ('first')`);
  const { data, error } = await client().functions.invoke('greeting');
  assert.is(error, null, await journal());
  assert.equal([data.greeting, data.status], ['hello', 200]);
  assert.ok(data.rows.some(({ body }: { body: string }) => body === 'first'));
});

test('nginx accepts the ref in the path, and a path without a slash at its end', async () => {
  for (const unit of SERVICES) {
    assert.is(
      await statusOf(unit, document.apiKeys.serviceRole, `/p/${REF}`),
      await statusOf(unit, document.apiKeys.serviceRole),
      unit,
    );
    assert.is(await statusOf(unit, document.apiKeys.serviceRole, '/p/neighbour'), 404, unit);
  }
  const headers = { apikey: document.apiKeys.serviceRole };
  for (const below of ['', `/p/${REF}`]) {
    const response = await fetch(`${document.url}${below}/rest/v1`, { headers });
    assert.is(response.status, 200);
    assert.match(await response.text(), '"swagger"');
  }
  assert.is((await fetch(`${document.url}/rest/v12/news`)).status, 404);
  const user = client(document.apiKeys.anon, `/p/${REF}`);
  assert.is((await user.auth.signInWithPassword(AL)).error, null);
  assert.equal((await user.from('notes').select('body')).data, [{ body: 'of al' }]);
});

test('the plain listener of nginx is at loopback alone', async () => {
  const local = `${LOCAL_URL}/rest/v1/news -H 'apikey: ${document.apiKeys.serviceRole}'`;
  assert.is(await machine.sh(`curl -s -o /dev/null -w '%{http_code}' ${local}`), '200');
  const outside = LOCAL_URL.replace('127.0.0.1', machine.address);
  const error = await fetch(`${outside}/rest/v1/news`).catch((reason) => reason);
  assert.is(error.cause?.code, 'ECONNREFUSED');
});

test('a service trusts X-Forwarded-For only from the machine and from the platform', async () => {
  const address = (await machine.sh('echo $SSH_CLIENT')).split(' ')[0];
  const headers = { authorization: `Bearer ${document.apiKeys.anon}`, 'x-forwarded-for': '198.51.100.7' };
  const from = async (url: string) => {
    const response = await fetch(url, { headers });
    return ((await response.json()) as { from: string }).from;
  };
  assert.is(await from(document.url + CLOSED.functions), address);
  request = { ...request, services: projectServices({ trustedProxies: [address as string] }) };
  assert.is((await apply()).repaired.length, SERVICES.length);
  await until(allServe, 'all services to respond', PATIENCE_MS);
  assert.is(await from(document.url + CLOSED.functions), '198.51.100.7');
});

test('only the services read the document', async () => {
  const as = (account: string) =>
    machine.sh(`setpriv --reuid=${account} --regid=${account} --init-groups cat ${PROJECT_FILE} >/dev/null; echo $?`);
  for (const name of SERVICES) assert.is(await as(`slipway-${name}`), '0', name);
  for (const name of ['slipway-nginx', 'slipway-postgres', 'slipway-pgbouncer', 'nobody']) {
    const group = name === 'nobody' ? 'nogroup' : name;
    const read = `setpriv --reuid=${name} --regid=${group} --init-groups cat ${PROJECT_FILE} 2>&1; exit 0`;
    assert.match(await machine.sh(read), 'Permission denied', name);
  }
});

test('the code of a function reads no secret of the machine, and reaches none of its ports and sockets', async () => {
  await deploy('thief', THIEF);
  const pids = await mainPids();
  const of = (files: string) => pids.split(/\n+/).map((pid) => `/proc/${pid}/${files}`);
  const environments = SERVICES.map((name) => `/etc/slipway/services/${name}.env`);
  const body = {
    files: [PROJECT_FILE, '/etc/passwd', '/etc/slipway/tls/private-key.pem', ...environments, ...of('environ')],
    urls: [document.url, LOCAL_URL, 'http://169.254.169.254/hetzner/v1/userdata', 'https://127.0.0.1/'],
    sockets: [
      ...SERVICES.map(socketOf),
      `${runtimeFolder('functions')}/control.sock`,
      `${POSTGRES_SOCKET}/.s.PGSQL.5432`,
    ],
    places: ['127.0.0.1', 'localhost', machine.address].flatMap((host) =>
      [22, 443, 6543, 8000].map((port) => [host, port]),
    ),
  };
  const { data, error } = await client().functions.invoke('thief', { body });
  assert.is(error, null, await journal());
  // The functions service sends requests for the project's own URL to nginx.
  assert.equal(data, [document.url]);
  // A program that had left Deno's permissions would still be in the sandbox.
  const isolate = await machine.sh('pgrep --newest deno');
  const own = 'setpriv --reuid=slipway-functions --regid=slipway-functions --init-groups';
  const inSandbox = `${own} nsenter --target ${isolate} --user --mount --root --preserve-credentials`;
  const read = (file: string) => machine.sh(`${inSandbox} cat ${file} 2>&1 >/dev/null; exit 0`);
  assert.is(await read('/etc/passwd'), '');
  for (const file of [PROJECT_FILE, '/run/slipway', '/var/lib/slipway/storage']) {
    assert.match(await read(file), 'No such file', file);
  }
  for (const file of [...environments, ...of('environ')]) assert.match(await read(file), 'Permission denied', file);
  assert.match(await machine.sh('journalctl -u slipway-functions --no-pager'), '"kind":"sandbox"');
  if (!filters)
    console.log('# not tested: the packet filter of the metadata service, which these machines may not load');
});

test('a function that uses too much memory ends alone', async () => {
  await deploy('hoarder', HOARDER);
  const before = await mainPids();
  const { error } = await client().functions.invoke('hoarder');
  assert.ok(error);
  assert.is(await mainPids(), before);
  assert.is((await client().functions.invoke('greeting')).error, null);
});

for (const unit of SERVICES) {
  test(`${unit} starts again when it is killed`, async () => {
    const before = await mainPids();
    await machine.sh(`kill -9 $(systemctl show --property=MainPID --value slipway-${unit})`);
    const response = await fetch(`${document.url}${CLOSED[unit]}`);
    assert.is(response.status, 502);
    assert.match(((await response.json()) as Error).message, `service ${unit} is not running`);
    const begun = performance.now();
    await until(async () => (await mainPids()) !== before && (await allServe()), `${unit} to respond`, PATIENCE_MS);
    console.log(`# ${unit} responds ${seconds(begun)} s after a kill`);
    await useAll();
  });
}

test('a change of the document reaches all services without a restart', async () => {
  const before = await mainPids();
  const nextSecret = 'the next secret of the project, 32 characters or more';
  const next = keysOf(nextSecret);
  for (const unit of SERVICES) assert.is(await statusOf(unit, next.serviceRole), 401, unit);
  const report = await change({ jwt: { secret: SECRET, nextSecret } });
  assert.equal(report.repaired, [`file ${PROJECT_FILE}, which had other content`]);
  for (const unit of SERVICES) {
    for (const key of [next.serviceRole, document.apiKeys.serviceRole])
      assert.ok((await statusOf(unit, key)) < 300, unit);
  }
  assert.is(await mainPids(), before);
  assert.equal((await apply()).repaired, []);
});

test('everything is back after a reboot of the machine', async () => {
  const begun = performance.now();
  await machine.reboot();
  const isBack = () => allServe().catch(() => false);
  await until(isBack, 'all services to respond', PATIENCE_MS);
  console.log(`# all services respond ${seconds(begun)} s after the order to reboot`);
  await useAll();
  const report = await apply();
  assert.equal([report.repaired, report.down], [[], []]);
});

test('the idle services fit into the memory of a small machine', async () => {
  await machine.sh(`systemctl restart ${UNITS.join(' ')}`);
  await until(allServe, 'all services to respond', PATIENCE_MS);
  const megabytes = await Promise.all(UNITS.map(memoryOf));
  const sum = megabytes.reduce((all, each) => all + each, 0);
  console.log(`# memory: ${SERVICES.map((name, at) => `${name} ${megabytes[at]?.toFixed(0)}`).join(', ')} MiB`);
  assert.ok(sum < 1024, `${sum} MiB`);
});

services.run();
