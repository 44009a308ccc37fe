/** Tests the gateway with pods of sites, which have real deployments and the store at a separate port. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { podOf } from '@slipway/installation';
import { previewName, refOfPreview, Sites } from '@slipway/sites';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import { createHosting } from '../services/hosting/index.js';
import type { Hosting } from '../services/service.js';
import { requestHost } from '../testing/host-request.js';
import { createRemoteSites } from './remote-sites.js';

interface World {
  root: string;
  pods: { url: string; sites: Sites; seen: IncomingMessage[] }[];
  gateway: string;
}

const test = suite<World>('remote sites');
const log = pino({ level: 'silent' });
const LIMITS = { files: 10, fileBytes: 1_000_000, totalBytes: 1_000_000 };
const servers: Server[] = [];
const hostings: Hosting[] = [];

async function serve(hosting: Hosting, behindIngress: boolean): Promise<{ url: string; server: Server }> {
  hostings.push(hosting);
  const server = createGateway({
    publicUrl: 'http://slipway.test',
    projectsDomain: 'pages.test',
    tenant: (ref) => {
      if (refOfPreview(ref) !== undefined) return undefined;
      const siteUrl = `http://${ref}.pages.test`;
      const suspended = ref === 'resting';
      return { kind: 'site', ref, revision: '1', suspended, formsEnabled: true, type: 'frontend', siteUrl };
    },
    complete: () => true,
    services: {},
    hosting,
    behindIngress,
    rateLimit: 0,
    management: { forward: (_, outgoing) => void outgoing.end('platform'), close: () => undefined },
    log,
  });
  servers.push(server);
  return { url: await listening(server), server };
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.before.each(async (world) => {
  world.root = await mkdtemp(path.join(tmpdir(), 'remote-sites-'));
  world.pods = [];
  for (const name of ['one', 'two']) {
    const sites = new Sites(path.join(world.root, name));
    const { url, server } = await serve(createHosting({ folder: sites.folder, log }), true);
    const seen: IncomingMessage[] = [];
    server.on('request', (incoming) => seen.push(incoming));
    world.pods.push({ url, sites, seen });
  }
  const urls = world.pods.map(({ url }) => url);
  world.gateway = (await serve(createRemoteSites(urls, log), false)).url;
});
test.after.each(async ({ root }) => {
  for (const hosting of hostings.splice(0)) hosting.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
  await rm(root, { recursive: true, force: true });
});

const podFor = ({ pods }: World, ref: string) => {
  const url = podOf(
    ref,
    pods.map((pod) => pod.url),
  );
  return pods.find((pod) => pod.url === url) as World['pods'][number];
};

/** `site`: the ref, or the name of a preview of the project. */
async function deploy(world: World, ref: string, html: string, site = ref): Promise<void> {
  const output = await mkdtemp(path.join(world.root, 'output-'));
  await mkdir(path.join(output, 'docs'));
  await writeFile(path.join(output, 'index.html'), html);
  await writeFile(path.join(output, 'docs/index.html'), 'docs');
  const { sites } = podFor(world, ref);
  await sites.publish(site, 'build-1', output, LIMITS);
  await sites.goLive(site, 'build-1');
}

const ask = ({ gateway }: Pick<World, 'gateway'>, ref: string, path = '/', headers: Record<string, string> = {}) =>
  requestHost({ port: new URL(gateway).port, host: `${ref}.pages.test`, path, headers });

/** The pod of a ref depends on the pods' ports, which the system chooses. */
const refsServedBy = (world: World, pod: World['pods'][number], count: number): string[] =>
  Array.from({ length: 200 }, (_, at) => `site${at}`)
    .filter((ref) => podFor(world, ref) === pod)
    .slice(0, count);

test('each site is served by its own pod, with the same headers as locally', async (world) => {
  const refs = world.pods.flatMap((pod) => refsServedBy(world, pod, 3));
  for (const ref of refs) await deploy(world, ref, `<h1>${ref}</h1>`);
  for (const ref of refs) {
    const { status, headers, text } = await ask(world, ref);
    assert.equal([status, text, headers['content-type']], [200, `<h1>${ref}</h1>`, 'text/html; charset=utf-8']);
    assert.ok(headers.etag);
    assert.ok(headers['x-request-id']);
    assert.is((await ask(world, ref, '/', { 'if-none-match': headers.etag as string })).status, 304);
  }
  assert.ok(world.pods.every(({ seen }) => seen.length > 0));
  const redirect = await ask(world, refs[0] as string, '/docs?a=1');
  assert.equal([redirect.status, redirect.headers.location], [308, '/docs/?a=1']);
});

test('a preview is served by the pod of its project, with a header that forbids an index', async (world) => {
  const refs = Array.from({ length: 50 }, (_, at) => `site${at}`);
  const isElsewhere = (ref: string) => podFor(world, ref) !== podFor(world, previewName(ref, 'next'));
  const ref = refs.find(isElsewhere) as string;
  const preview = previewName(ref, 'next');
  await deploy(world, ref, 'the site');
  assert.is((await ask(world, preview)).status, 404);
  await deploy(world, ref, 'the preview', preview);
  // The pod looks again for a preview that it did not find.
  const { text, headers } = await until(async () => {
    const answer = await ask(world, preview);
    return answer.status === 200 ? answer : undefined;
  }, 'the preview is served');
  assert.equal([text, headers['x-robots-tag']], ['the preview', 'noindex']);
  const site = await ask(world, ref);
  assert.equal([site.text, site.headers['x-robots-tag']], ['the site', undefined]);
});

test('a pod gets the visitor’s address only from the gateway', async (world) => {
  await deploy(world, 'shop', 'x');
  await ask(world, 'shop', '/', {
    'x-forwarded-for': '203.0.113.9',
    forwarded: 'for=203.0.113.9',
    'x-forwarded-host': 'b',
  });
  const { headers } = podFor(world, 'shop').seen.at(-1) as IncomingMessage;
  assert.equal([headers['x-forwarded-for'], headers.forwarded], ['127.0.0.1', undefined]);
  assert.equal([headers.host, headers['x-forwarded-host']], ['shop.pages.test', undefined]);
});

test('a site without a deployment returns 404, and a suspended one 503 without a request to its pod', async (world) => {
  const empty = await ask(world, 'empty');
  assert.equal([empty.status, JSON.parse(empty.text).message], [404, 'Nothing is deployed yet']);
  assert.is((await ask(world, 'resting')).status, 503);
  assert.not.ok(world.pods.some(({ seen }) => seen.some(({ headers }) => headers.host?.startsWith('resting'))));
});

test('an unavailable pod causes a 502, and other sites are served', async (world) => {
  const stopped = createServer();
  const url = await listening(stopped);
  await new Promise((resolve) => stopped.close(resolve));
  const { url: gateway } = await serve(createRemoteSites([url], log), false);
  const { status, headers } = await ask({ gateway }, 'shop');
  assert.is(status, 502);
  assert.ok(headers['x-request-id']);
  await deploy(world, 'shop', 'still here');
  assert.is((await ask(world, 'shop')).text, 'still here');
});

test('a body of a GET request, which no page has, is not read by the pod as a second request', async (world) => {
  await deploy(world, 'shop', 'x');
  const { seen } = podFor(world, 'shop');
  const second = ['GET /second HTTP/1.1', 'Host: shop.pages.test', 'X-Forwarded-For: 203.0.113.9', '', ''].join('\r\n');
  const headers = { 'transfer-encoding': 'chunked' };
  const { port } = new URL(world.gateway);
  const { status } = await requestHost({ port, host: 'shop.pages.test', headers, body: second });
  assert.is(status, 200);
  assert.is((await ask(world, 'shop')).text, 'x');
  assert.equal(
    seen.map(({ url }) => url),
    ['/', '/'],
  );
});

test.run();
