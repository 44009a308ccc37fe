/** Tests forms of sites in pods: from a gateway behind an ingress over a pod to the port of a stand-in for the API. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { IncomingMessage, Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { startInternalServer } from '@slipway/program';
import { previewName, refOfPreview, Sites } from '@slipway/sites';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway, type GatewayLimits } from '../gateway/server.js';
import type { EntryPlace } from '../services/hosting/forms/entry-store.js';
import { createHosting } from '../services/hosting/index.js';
import type { Hosting } from '../services/service.js';
import { type HostRequest, requestHost } from '../testing/host-request.js';
import { createRemoteSites } from './remote-sites.js';

interface Entry {
  ref: string;
  form: string;
  fields: [string, unknown][];
  flagged: string | null;
}

interface World {
  folder: string;
  lines: string[];
  /** The API's stand-in: the token that it accepts, its status, and what it stored. */
  api: { server: Server; token: string; status: number; entries: Entry[] };
  /** Token that the pod reads. */
  pod: { token: string; seen: IncomingMessage[]; url: string };
  gateway: string;
  /** Gateway that serves the same files itself, as on one machine. */
  local: string;
}

const [TOKEN, OTHER_TOKEN] = ['first'.repeat(8), 'second'.repeat(8)];
const URLENCODED = 'application/x-www-form-urlencoded';
const REFS = ['blog', 'shop', 'resting', 'plain'];
const test = suite<World>('remote forms');
const servers: Server[] = [];
const hostings: Hosting[] = [];

interface Served {
  behindIngress?: boolean;
  limits?: Partial<GatewayLimits>;
  log: pino.Logger;
}

async function serve(hosting: Hosting, { behindIngress = true, limits = {}, log }: Served) {
  hostings.push(hosting);
  const server = createGateway({
    publicUrl: 'http://slipway.test',
    projectsDomain: 'pages.test',
    tenant: (ref) =>
      REFS.includes(ref) && refOfPreview(ref) === undefined
        ? {
            kind: 'site',
            ref,
            revision: '1',
            suspended: ref === 'resting',
            formsEnabled: ref !== 'plain',
            type: 'frontend',
            siteUrl: `http://${ref}.pages.test`,
          }
        : undefined,
    complete: () => true,
    services: {},
    hosting,
    behindIngress,
    rateLimit: 0,
    limits,
    management: { forward: (_, outgoing) => void outgoing.writeHead(404).end('platform'), close: () => undefined },
    log,
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { server, url: urlOf(server) };
}

const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

async function startApi(world: Pick<World, 'api'>): Promise<Server> {
  const server = await startInternalServer(
    { listen: '127.0.0.1:0', token: () => world.api.token },
    {
      answer: async (incoming) => {
        let text = '';
        for await (const piece of incoming.setEncoding('utf8')) text += piece;
        assert.equal([incoming.method, incoming.url], ['POST', '/entries']);
        if (world.api.status === 201) world.api.entries.push(JSON.parse(text));
        return { status: world.api.status };
      },
      onError: (error) => {
        throw error;
      },
    },
  );
  servers.push(server);
  return server;
}

test.before.each(async (world) => {
  world.folder = await mkdtemp(path.join(tmpdir(), 'remote-forms-'));
  world.lines = [];
  const log = pino({ level: 'info' }, { write: (line) => void world.lines.push(line) });
  world.api = { server: undefined as unknown as Server, token: TOKEN, status: 201, entries: [] };
  world.api.server = await startApi(world);
  world.pod = { token: TOKEN, seen: [], url: '' };
  const forms: EntryPlace = { origin: urlOf(world.api.server), token: () => world.pod.token };
  const { folder } = await sitesOf(world);
  const { server, url } = await serve(createHosting({ folder, forms, log }), { log });
  server.on('request', (incoming) => world.pod.seen.push(incoming));
  world.pod.url = url;
  world.gateway = (await serve(createRemoteSites([url], log), { log })).url;
  world.local = (await serve(createHosting({ folder, forms, log }), { log })).url;
});
test.after.each(async ({ folder }) => {
  for (const hosting of hostings.splice(0)) hosting.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await rm(folder, { recursive: true, force: true });
});

async function sitesOf({ folder }: Pick<World, 'folder'>): Promise<Sites> {
  const sites = new Sites(path.join(folder, 'sites'));
  const output = await mkdtemp(path.join(folder, 'output-'));
  await writeFile(path.join(output, 'index.html'), 'home');
  for (const site of [...REFS, previewName('shop', 'next')]) {
    await sites.publish(site, 'build-1', output, { files: 10, fileBytes: 1_000, totalBytes: 10_000 });
    await sites.goLive(site, 'build-1');
  }
  return sites;
}

type Post = Partial<HostRequest> & { to?: string; ref?: string; from?: string; accept?: string };
const post = (
  world: World,
  { to = world.gateway, ref = 'shop', from = '203.0.113.7', accept = 'text/html', ...rest }: Post = {},
) =>
  requestHost({
    port: new URL(to).port,
    host: `${ref}.pages.test`,
    path: '/forms/contact',
    method: 'POST',
    body: 'email=ada%40example.com',
    ...rest,
    headers: { 'content-type': URLENCODED, accept, 'x-forwarded-for': from, ...rest.headers },
  });

/** Sends the head of a form and the beginning of its body. */
function beginPost(gateway: string, length: number, from = '203.0.113.7'): Socket {
  const socket = connect(Number(new URL(gateway).port), '127.0.0.1');
  const head = ['POST /forms/contact HTTP/1.1', 'Host: shop.pages.test', `X-Forwarded-For: ${from}`];
  socket.write([...head, `Content-Type: ${URLENCODED}`, `Content-Length: ${length}`, '', 'a=b'].join('\r\n'));
  return socket;
}

/** Returns all that arrives until the connection of such a form ends. */
const postPart = (gateway: string, length: number) =>
  new Promise<string>((resolve, reject) => {
    const socket = beginPost(gateway, length);
    let text = '';
    socket.on('data', (piece) => {
      text += piece;
    });
    socket.on('error', reject).on('close', () => resolve(text));
  });

test('an entry goes over the pod of its site to the API with the token', async (world) => {
  const thanks = await post(world, { body: 'email=ada%40example.com&_next=%2Fthanks' });
  assert.equal([thanks.status, thanks.headers.location], [303, '/thanks']);
  const json = await post(world, { ref: 'blog', accept: 'application/json', path: '/forms/join?from=menu' });
  assert.equal([json.status, json.text], [200, '{"ok":true}']);
  const fields: Entry['fields'] = [['email', 'ada@example.com']];
  assert.equal(world.api.entries, [
    { ref: 'shop', form: 'contact', fields, flagged: null },
    { ref: 'blog', form: 'join', fields, flagged: null },
  ]);
  assert.equal(
    world.pod.seen.map(({ method, url }) => [method, url]),
    [
      ['POST', '/forms/contact'],
      ['POST', '/forms/join?from=menu'],
    ],
  );
});

test('a wrong token is a 503 whose reason only the log has, and a replaced token is used at once', async (world) => {
  world.pod.token = OTHER_TOKEN;
  const refused = await post(world);
  assert.equal([refused.status, refused.headers['retry-after']], [503, '5']);
  assert.not.match(`${refused.text} ${JSON.stringify(refused.headers)}`, /401|token|unauthori/i);
  const logged = world.lines.map((line) => JSON.parse(line)).filter(({ msg }) => msg === 'form not stored');
  assert.equal(
    logged.map(({ ref, err }) => [ref, err.message]),
    [['shop', 'the API rejected the token of SLIPWAY_HOSTING_TOKEN']],
  );
  assert.not.ok(world.lines.some((line) => line.includes(OTHER_TOKEN)));
  assert.equal(world.api.entries, []);
  world.api.token = OTHER_TOKEN;
  assert.is((await post(world)).status, 200);
  world.pod.token = '';
  assert.is((await post(world)).status, 503);
  assert.is(world.api.entries.length, 1);
});

test('an API or a pod that is unavailable, and an unreadable token, are a 503 with a page', async (world) => {
  const expectUnavailable = async (to?: string) => {
    const { status, headers, text } = await post(world, to === undefined ? {} : { to });
    assert.equal([status, headers['retry-after']], [503, '5']);
    assert.match(text, '<h1>The form was not received</h1>');
    assert.ok(headers['x-request-id']);
  };
  const log = pino({ level: 'silent' });
  const forms: EntryPlace = {
    origin: urlOf(world.api.server),
    token: () => {
      throw new Error('SLIPWAY_HOSTING_TOKEN: the file can not be read');
    },
  };
  const withoutToken = createHosting({ folder: path.join(world.folder, 'sites'), forms, log });
  await expectUnavailable((await serve(withoutToken, { log })).url);
  world.api.server.close();
  world.api.server.closeAllConnections();
  await expectUnavailable();
  const [pod] = servers.filter((server) => server.listening && urlOf(server) === world.pod.url);
  pod?.close();
  pod?.closeAllConnections();
  await expectUnavailable();
});

/** Headers of a response, without those that differ from one response to the next. */
const stable = ({ 'x-request-id': _, date: __, ...others }: Record<string, unknown>) => others;

const ANSWERS: [name: string, status: number, post: Post, api?: number][] = [
  ['a page', 200, {}],
  ['JSON', 200, { accept: 'application/json' }],
  ['a redirect', 303, { body: 'a=b&_next=/thanks' }],
  ['a form without fields', 400, { body: '' }],
  ['JSON that is not valid', 400, { body: '{', headers: { 'content-type': 'application/json' } }],
  ['another name', 404, { path: '/forms/A' }],
  ['a form that is unknown to the API', 404, {}, 404],
  ['a body that is too large', 413, { body: `a=${'x'.repeat(70_000)}` }],
  [
    'a body without a length that is too large',
    413,
    { body: `a=${'x'.repeat(70_000)}`, headers: { 'transfer-encoding': 'chunked' } },
  ],
  ['a content encoding', 415, { headers: { 'content-encoding': 'gzip' } }],
  ['another content type', 415, { headers: { 'content-type': 'text/csv' } }],
  ['a full project', 507, {}, 507],
  ['a failure of the API', 503, {}, 500],
  ['another path', 405, { path: '/other' }],
  ['a site without forms', 405, { ref: 'plain' }],
  ['a preview', 405, { ref: previewName('shop', 'next') }],
  ['a suspended project', 503, { ref: 'resting' }],
  ['a deleted project', 404, { ref: 'deleted' }],
];

for (const [name, status, request, api = 201] of ANSWERS) {
  test(`the response to ${name} is ${status}, as on one machine`, async (world) => {
    world.api.status = api;
    const here = await post(world, { ...request, to: world.local });
    const there = await post(world, request);
    assert.is(there.status, status);
    assert.equal([there.status, there.text], [here.status, here.text]);
    assert.equal(stable(there.headers), stable(here.headers));
    if (['resting', 'deleted', 'plain'].includes(request.ref ?? '')) assert.equal(world.pod.seen, []);
  });
}

test('entries are counted by the address that the ingress appended, whatever the visitor sends', async (world) => {
  for (let at = 0; at < 62; at += 1) {
    const forged = { forwarded: 'for=192.0.2.1', x_forwarded_for: '192.0.2.1', 'x-real-ip': `198.51.100.${at}` };
    const from = `198.51.${at}.1, 203.0.113.7`;
    const { status } = await post(world, { from, headers: { ...forged, connection: 'close, x-forwarded-for' } });
    assert.is(status, at < 60 ? 200 : 429, String(at));
  }
  assert.is((await post(world, { from: '203.0.113.7, 198.51.100.8' })).status, 200);
  assert.equal(
    world.api.entries.map(({ flagged }) => flagged),
    [...Array(10).fill(null), ...Array(50).fill('rate_limit'), null],
  );
});

test('a body of 1 GB is rejected before it is sent, and its connection ends', async ({ gateway }) => {
  const answer = await postPart(gateway, 2 ** 30);
  assert.match(answer, /^HTTP\/1\.1 413 /);
  assert.match(answer, /\r\nConnection: close\r\n/i);
});

test('a body that arrives too slowly gets 408, and its connection ends', async (world) => {
  const log = pino({ level: 'info' }, { write: (line) => void world.lines.push(line) });
  const limits = { requestMilliseconds: 200, checkMilliseconds: 50 };
  const { url } = await serve(createRemoteSites([world.pod.url], log), { limits, log });
  const answer = await postPart(url, 100);
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assert.is(answer.split('HTTP/1.1').length, 2);
  assert.equal([world.api.entries, world.lines], [[], []]);
});

test('forms that are sent slowly leave places for the pages of their site', async (world) => {
  const sockets = Array.from({ length: 270 }, (_, at) => beginPost(world.gateway, 100, `198.51.${at % 10}.7`));
  await until(() => world.pod.seen.length >= 256, 'the pod to receive as many forms as it gets at once');
  const page = await requestHost({ port: new URL(world.gateway).port, host: 'shop.pages.test' });
  assert.equal([page.status, page.text], [200, 'home']);
  for (const socket of sockets) socket.destroy();
});

test.run();
