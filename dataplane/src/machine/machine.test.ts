/**
 * Tests the five services of a project on its own machine, as processes with one document, with supabase-js. On a
 * machine nginx stands where these tests have a small proxy.
 */
import type { Server } from 'node:http';
import { type ProjectService } from '@slipway/crds';
import type { MachineProject } from '@slipway/installation';
import { openReplication } from '@slipway/project-database';
import { freePort, until } from '@slipway/testing';
import { createClient, type RealtimeClientOptions } from '@supabase/supabase-js';
import pg from 'pg';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import { signToken, startTestCluster, type TestCluster, type TestProject } from '../testing/project.js';
import { signedKeys } from '../testing/tenant.js';
import { createManagement } from '../upstreams/management.js';
import { createRemoteService } from '../upstreams/remote.js';
import { askSocket, createFront, documentOf, startTestMachine, type TestMachine } from './testing.js';

const REPLICATION_PASSWORD = 'of-the-reader-of-changes';
/** A route of each service that needs a key. */
const CLOSED: Readonly<Record<ProjectService, string>> = {
  rest: '/rest/v1/notes',
  auth: '/auth/v1/settings',
  realtime: '/realtime/v1/api/broadcast',
  storage: '/storage/v1/bucket',
  functions: '/functions/v1/guarded',
};
const SERVICES = Object.keys(CLOSED) as ProjectService[];

let cluster: TestCluster;
let shop: TestProject;
let neighbour: Awaited<ReturnType<typeof signedKeys>>;
let document: MachineProject;
let machine: TestMachine;
let front: Server;
let revision = 1;

test.before(async () => {
  cluster = await startTestCluster();
  await openReplication({ query: asAdmin }, REPLICATION_PASSWORD);
  const port = await freePort();
  shop = await cluster.project('shop', `http://localhost:${port}`);
  neighbour = await signedKeys();
  document = documentOf(shop, REPLICATION_PASSWORD);
  front = createFront((service) => machine.socketOf(service));
  await new Promise<void>((resolve) => front.listen(port, '127.0.0.1', resolve));
  machine = await startTestMachine(document, `http://127.0.0.1:${port}`);
  await asOwner(
    `create table public.notes (id bigint generated always as identity primary key,
       user_id uuid default auth.uid(), body text);
     alter table public.notes enable row level security;
     create policy own on public.notes using (user_id = auth.uid()) with check (user_id = auth.uid());
     create table public.news (id bigint generated always as identity primary key, body text);
     alter publication supabase_realtime add table public.news`,
  );
  await deploy('guarded', GUARDED, true);
});
test.after(async () => {
  await machine?.close();
  front?.closeAllConnections();
  front?.close();
  await cluster?.close();
});

const GUARDED = `Deno.serve(async (request) => {
  const wait = new URL(request.url).searchParams.get('wait');
  if (wait) await new Promise((resolve) => setTimeout(resolve, Number(wait)));
  const url = Deno.env.get('SUPABASE_URL') + '/rest/v1/news?select=body';
  const apikey = Deno.env.get('SUPABASE_SERVICE_ROLE_KEY');
  const news = await fetch(url, { headers: { apikey } });
  const greeting = Deno.env.get('GREETING');
  return Response.json({ greeting, status: news.status, from: request.headers.get('x-forwarded-for') });
});`;

const asOwner = (sql: string) => run(shop.owner, sql);
const asAdmin = (sql: string) => run(cluster.postgres.admin(), sql);
const disconnect = (role: string) =>
  asAdmin(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}'`);

async function run(login: pg.ClientConfig, sql: string): Promise<pg.QueryResult> {
  const session = new pg.Client(login);
  await session.connect();
  try {
    return await session.query(sql);
  } finally {
    await session.end();
  }
}

/** Deploys as the operator does. */
async function deploy(name: string, code: string, verifyJwt: boolean): Promise<void> {
  const body = JSON.stringify({ version: 1, code, verifyJwt });
  const { body: outcome } = await askSocket(`${machine.folder}/control.sock`, {
    method: 'PUT',
    path: `/shop/${name}`,
    body,
  });
  assert.equal(JSON.parse(outcome), { state: 'ready' });
}

/** Writes the next revision of the document. */
async function change(more: Partial<MachineProject>): Promise<void> {
  document = { ...document, ...more, revision: String(++revision) };
  await machine.change(document);
}

const client = (key = shop.anonKey, url = shop.url) =>
  createClient(url, key, {
    auth: { persistSession: false, autoRefreshToken: false },
    realtime: { params: { apikey: key } } as RealtimeClientOptions,
  });

const statusWith = async (service: ProjectService, apikey: string, bearer = apikey) => {
  const headers = { apikey, authorization: `Bearer ${bearer}` };
  const method = service === 'realtime' ? 'POST' : 'GET';
  const { status } = await askSocket(machine.socketOf(service), {
    method,
    path: `/p/shop${CLOSED[service]}`,
    headers: { ...headers, 'content-type': 'application/json' },
    ...(method === 'POST' && { body: '{"messages":[]}' }),
  });
  return status;
};
const statusesWith = async (apikey: string) =>
  Object.fromEntries(
    await Promise.all(SERVICES.map(async (service) => [service, await statusWith(service, apikey)] as const)),
  );

const ALL_REFUSED = Object.fromEntries(SERVICES.map((service) => [service, 401]));
const isServed = (statuses: Record<string, number>) => Object.values(statuses).every((status) => status < 300);

test('a user signs up, and sees only their own rows', async () => {
  const [al, bo] = [client(), client()];
  for (const [user, email] of [
    [al, 'al@example.com'],
    [bo, 'bo@example.com'],
  ] as const) {
    assert.is((await user.auth.signUp({ email, password: 'correct horse' })).error, null);
    assert.is((await user.from('notes').insert({ body: `of ${email}` })).error, null);
  }
  assert.equal((await al.from('notes').select('body')).data, [{ body: 'of al@example.com' }]);
  assert.equal((await client().from('notes').select('body')).data, []);
});

test('an uploaded object is downloaded', async () => {
  const { storage } = client(shop.serviceRoleKey);
  assert.is((await storage.createBucket('files')).error, null);
  assert.is((await storage.from('files').upload('a/b.txt', new Blob(['in a file']))).error, null);
  const { data } = await storage.from('files').download('a/b.txt');
  assert.is(await data?.text(), 'in a file');
});

test('a channel receives a broadcast, and a change of a table', async () => {
  const received: unknown[] = [];
  const [sender, receiver] = [client(), client(shop.serviceRoleKey)];
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
  await until(() => isListening, 'the channel to read changes');
  const speaking = sender.channel('room');
  await new Promise<void>((resolve) => speaking.subscribe((status) => status === 'SUBSCRIBED' && resolve()));
  await speaking.send({ type: 'broadcast', event: 'e', payload: { text: 'said' } });
  await until(() => received.includes('said'), 'the broadcast');
  await asOwner(`insert into public.news (body) values ('printed')`);
  await until(() => received.includes('printed'), 'the change');
  await Promise.all([sender, receiver].map((each) => each.removeAllChannels()));
});

test('a function is called, and its own requests reach the project through the proxy', async () => {
  const { data, error } = await client().functions.invoke('guarded');
  assert.is(error, null);
  assert.equal([data.greeting, data.status], ['hello', 200]);
});

test('X-Forwarded-For is trusted as far as the proxy on the machine has appended it', async () => {
  const from = async (forwarded: string) => {
    const { body } = await askSocket(machine.socketOf('functions'), {
      path: CLOSED.functions,
      headers: { authorization: `Bearer ${shop.anonKey}`, 'x-forwarded-for': forwarded },
    });
    return JSON.parse(body).from;
  };
  assert.is(await from('203.0.113.9, 127.0.0.1'), '203.0.113.9');
  assert.is(await from('198.51.100.1, 203.0.113.9'), '203.0.113.9');
});

test('the gateway of the platform forwards to the machine as to pods', async () => {
  const urls = [new URL(shop.url).origin];
  const services = Object.fromEntries(SERVICES.map((service) => [service, createRemoteService({ service, urls })]));
  const port = await freePort();
  const publicUrl = `http://localhost:${port}`;
  const tenant: BackendTenant = { ...shop, url: `${publicUrl}/p/shop`, services: new Set(SERVICES) };
  const gateway = createGateway({
    publicUrl,
    tenant: (ref) => (ref === 'shop' ? tenant : undefined),
    complete: () => true,
    services,
    rateLimit: 0,
    management: createManagement(undefined, publicUrl),
    log: pino({ level: 'silent' }),
  });
  await new Promise<void>((resolve) => gateway.listen(port, '127.0.0.1', resolve));
  const user = client(shop.anonKey, tenant.url);
  assert.is((await user.auth.signUp({ email: 'cy@example.com', password: 'correct horse' })).error, null);
  assert.is((await user.from('notes').insert({ body: 'of cy' })).error, null);
  const { data } = await client(shop.serviceRoleKey, tenant.url).storage.from('files').download('a/b.txt');
  assert.is(await data?.text(), 'in a file');
  assert.is((await user.functions.invoke('guarded')).data.greeting, 'hello');
  const channel = user.channel('room');
  await new Promise<void>((resolve) => channel.subscribe((status) => status === 'SUBSCRIBED' && resolve()));
  await user.removeAllChannels();
  gateway.closeAllConnections();
  gateway.close();
  await Promise.all(Object.values(services).map((service) => service.close()));
});

test('every service rejects keys of a neighbour, and requests for a neighbour', async () => {
  assert.ok(isServed(await statusesWith(shop.serviceRoleKey)));
  for (const key of [neighbour.anonKey, neighbour.serviceRoleKey]) assert.equal(await statusesWith(key), ALL_REFUSED);
  for (const service of SERVICES) {
    const path = `/p/neighbour${CLOSED[service]}`;
    const headers = { apikey: neighbour.serviceRoleKey };
    assert.is((await askSocket(machine.socketOf(service), { path, headers })).status, 404, service);
  }
});

test('a request is served with and without the ref in its path, at any host name', async () => {
  for (const service of ['rest', 'auth', 'storage', 'functions'] as const) {
    for (const [path, host] of [
      [CLOSED[service], 'shop.example.com'],
      [`/p/shop${CLOSED[service]}`, 'localhost:4000'],
    ] as const) {
      const headers = { host, apikey: shop.serviceRoleKey, authorization: `Bearer ${shop.serviceRoleKey}` };
      assert.is((await askSocket(machine.socketOf(service), { path, headers })).status, 200, path);
    }
  }
});

test('a malformed document is logged without a value, and the former one stays in use', async () => {
  const before = await machine.revisionOf('rest');
  const malformed = { ...document, revision: 'malformed', apiKeys: { anon: 4711 }, url: 'secret-value' };
  await machine.write(JSON.stringify(malformed));
  const lines = () => machine.output().match(/^.*"project file rejected".*$/gm) ?? [];
  await until(() => lines().length === SERVICES.length, 'five log lines');
  for (const line of lines()) {
    assert.match(line, /apiKeys\.anon/);
    assert.not.match(line, /4711|secret-value/);
  }
  assert.is(await machine.revisionOf('rest'), before);
  assert.ok(isServed(await statusesWith(shop.serviceRoleKey)));
});

test('a rotated database password takes effect without a restart', async () => {
  const { authenticator } = document.logins;
  const error = async () => (await client(shop.serviceRoleKey).from('news').select('body')).error;
  const password = 'the next password of the role';
  await change({ logins: { ...document.logins, authenticator: { ...authenticator, nextPassword: password } } });
  await asAdmin(`alter role "${authenticator.user}" password '${password}'`);
  await disconnect(authenticator.user);
  await until(async () => (await error()) === null, 'REST to use the next password');
  await change({ logins: { ...document.logins, authenticator: { ...authenticator, password } } });
  await disconnect(authenticator.user);
  await until(async () => (await error()) === null, 'REST to use the new password');
});

test('a changed variable and setting take effect without a restart', async () => {
  await change({ environment: { GREETING: 'good day' }, authConfig: { GOTRUE_DISABLE_SIGNUP: 'true' } });
  await until(
    async () => (await client().functions.invoke('guarded')).data?.greeting === 'good day',
    'the function to have the variable',
  );
  const { error } = await client().auth.signUp({ email: 'di@example.com', password: 'correct horse' });
  assert.is(error?.code, 'signup_disabled');
});

test('a changed URL is the issuer of new tokens', async () => {
  const url = 'https://shop.example.com';
  await change({ url });
  const { body } = await askSocket(machine.socketOf('auth'), { path: '/auth/v1/.well-known/openid-configuration' });
  assert.is(JSON.parse(body).issuer, `${url}/auth/v1`);
  await change({ url: shop.url });
});

test('a rotated JWT secret takes effect without a restart, and requests in flight finish', async () => {
  const pids = SERVICES.map((service) => machine.processes[service].pid);
  const secret = 'the next secret of the project, 32 characters or more';
  const [anon, serviceRole] = await Promise.all(
    ['anon', 'service_role'].map((role) => signToken({ role, ref: 'shop', iss: 'slipway' }, secret)),
  );
  const keys = { anon: anon as string, serviceRole: serviceRole as string };
  await change({ jwt: { secret, previousSecret: shop.jwtSecret }, apiKeys: keys });
  for (const key of [shop.serviceRoleKey, keys.serviceRole]) assert.ok(isServed(await statusesWith(key)), key);

  const inFlight = client(keys.anon).functions.invoke('guarded?wait=1000');
  await change({ jwt: { secret } });
  assert.is((await inFlight).error, null);
  assert.equal(await statusesWith(shop.serviceRoleKey), ALL_REFUSED);
  assert.ok(isServed(await statusesWith(keys.serviceRole)));
  const signedIn = await client(keys.anon).auth.signInWithPassword({
    email: 'al@example.com',
    password: 'correct horse',
  });
  assert.is(signedIn.error, null);
  assert.equal(
    SERVICES.map((service) => machine.processes[service].pid),
    pids,
  );
  assert.ok(SERVICES.every((service) => machine.processes[service].exitCode === null));
});

test.run();
