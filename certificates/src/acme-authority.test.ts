/**
 * Tests orders at an authority that is hostile, broken or unreachable. `e2e/src/certificates.long.test.ts` orders from
 * a real authority.
 */
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer as createPlainServer, type RequestListener } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Server as NetServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { AcmeAuthority } from './acme-authority.js';
import { AuthorityProblem } from './authority.js';
import { CertificateFolder } from './folder.js';
import { selfSigned } from './self-signed.testing.js';

const HOST = 'shop.apps.example.net';

interface Response {
  status?: number;
  body?: unknown;
  headers?: Record<string, string>;
}

interface World {
  folder: CertificateFolder;
  authority: AcmeAuthority;
  /** `orderMs`: time for an order; undefined: the default. */
  authorityFor(orderMs: number | undefined): AcmeAuthority;
  server: Server;
  /** URL of the server. */
  origin: string;
  requests: string[];
  /** Responses by path, in place of those of an authority that works; a function responds itself. */
  responses: Record<string, Response | RequestListener>;
  /** Places an order, and returns how it failed. */
  order(authority?: AcmeAuthority): Promise<AuthorityProblem>;
}

const test = suite<World>('acme authority');

const listening = (server: NetServer) =>
  new Promise<number>((resolve) =>
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port)),
  );

test.before.each(async (world) => {
  world.folder = new CertificateFolder(await mkdtemp(path.join(tmpdir(), 'slipway-acme-')));
  await world.folder.open();
  const pem = await selfSigned('localhost');
  world.requests = [];
  world.responses = {};
  world.server = createServer({ key: pem, cert: pem }, (incoming, outgoing) => {
    const { pathname } = new URL(incoming.url ?? '/', world.origin);
    world.requests.push(pathname);
    const response = world.responses[pathname] ?? defaultResponse(world.origin, pathname);
    if (typeof response === 'function') return response(incoming, outgoing);
    const { status = 200, body, headers } = response;
    incoming.resume();
    outgoing.writeHead(status, { 'content-type': 'application/json', 'replay-nonce': 'n', ...headers });
    outgoing.end(body === undefined ? '' : JSON.stringify(body));
  });
  world.origin = `https://localhost:${await listening(world.server)}`;
  const settings = { directory: `${world.origin}/directory`, email: undefined, trusted: pem };
  world.authorityFor = (orderMs) => new AcmeAuthority(settings, world.folder, { orderMs });
  world.authority = world.authorityFor(undefined);
  world.order = (authority = world.authority) => {
    const { folder } = world;
    const challenges = {
      put: (token: string, keyAuthorization: string) => folder.putChallenge(token, { host: HOST, keyAuthorization }),
      withdraw: (token: string) => folder.removeChallenge(token),
    };
    return authority.issue(HOST, challenges).then(
      () => assert.unreachable('a certificate'),
      (error: AuthorityProblem) => error,
    ) as Promise<AuthorityProblem>;
  };
});
test.after.each(async ({ folder, authority, server }) => {
  await authority.close();
  server.closeAllConnections();
  server.close();
  await rm(folder.folder, { recursive: true, force: true });
});

function defaultResponse(origin: string, pathname: string): Response {
  switch (pathname) {
    case '/directory':
      return { body: { newNonce: `${origin}/nonce`, newAccount: `${origin}/account`, newOrder: `${origin}/order` } };
    case '/account':
      return { status: 201, body: { status: 'valid' }, headers: { location: `${origin}/account/1` } };
    default:
      return {};
  }
}

const orderOf = (origin: string, authorizations: string[]): Response => ({
  status: 201,
  body: { status: 'pending', authorizations, finalize: `${origin}/finalize` },
  headers: { location: `${origin}/order/1` },
});

test('an authority that does not respond is one that was not reached', async (world) => {
  world.responses['/directory'] = (_, outgoing) => void outgoing.destroy();
  const problem = await world.order();
  assert.instance(problem, AuthorityProblem);
  assert.ok(problem.isUnreached);
  assert.match(problem.message, /^the authority at localhost:\d+ cannot be reached/);
});

test('an order ends after its time, however slow the responses are', async (world) => {
  world.responses['/order'] = (incoming, outgoing) => {
    incoming.resume();
    outgoing.writeHead(201);
    const drip = setInterval(() => outgoing.write(' '), 50);
    outgoing.on('close', () => clearInterval(drip));
  };
  const authority = world.authorityFor(2_000);
  const problem = await world.order(authority);
  await authority.close();
  assert.equal([problem.message, problem.isUnreached], ['the authority did not end the order in time', false]);
});

test('a response that is too large is not read', async (world) => {
  world.responses['/order'] = { status: 201, body: 'x'.repeat(2 ** 20) };
  assert.instance(await world.order(), AuthorityProblem);
});

test('an order of many requests is ended', async (world) => {
  const urls = Array.from({ length: 2_000 }, (_, index) => `${world.origin}/authorization/${index}`);
  world.responses['/order'] = orderOf(world.origin, urls);
  assert.match((await world.order()).message, /too many requests/);
  assert.ok(world.requests.length <= 200, `${world.requests.length}`);
});

test('a URL of an order that is not one of HTTPS is not requested', async (world) => {
  const seen: string[] = [];
  const inside = createPlainServer((incoming, outgoing) => {
    seen.push(incoming.url ?? '');
    outgoing.end('{"detail":"a secret"}');
  });
  const port = await listening(inside);
  for (const url of [`http://127.0.0.1:${port}/secret`, 'file:///etc/passwd', '/relative', 'no url', 7]) {
    world.responses['/order'] = orderOf(world.origin, [url as string]);
    const { message } = await world.order();
    assert.match(message, /not one of HTTPS/, String(url));
  }
  assert.equal(seen, []);
  inside.close();
});

test('a redirect is not followed', async (world) => {
  world.responses['/order'] = { status: 307, headers: { location: `${world.origin}/elsewhere` } };
  assert.instance(await world.order(), AuthorityProblem);
  assert.not.ok(world.requests.includes('/elsewhere'));
});

test('a token that is a path leaves no file', async (world) => {
  for (const token of ['../state.json', '..', '', 'x'.repeat(200), 'a\u0000b']) {
    world.responses['/order'] = orderOf(world.origin, [`${world.origin}/authorization`]);
    world.responses['/authorization'] = {
      body: {
        status: 'pending',
        identifier: { type: 'dns', value: HOST },
        challenges: [{ type: 'http-01', url: `${world.origin}/challenge`, token }],
      },
    };
    assert.match((await world.order()).message, /base64url/, token);
  }
  assert.equal((await readdir(world.folder.folder)).sort(), ['account.key', 'challenges']);
});

test('a rate limit has the time that the authority names, and an hour without one', async (world) => {
  for (const [header, least, most] of [
    ['7', 7_000, 7_000],
    [new Date(Date.now() + 60_000).toUTCString(), 50_000, 60_000],
    [new Date(0).toUTCString(), 3_600_000, 3_600_000],
    ['-5', 3_600_000, 3_600_000],
    ['soon', 3_600_000, 3_600_000],
  ] as const) {
    const body = { type: 'urn:ietf:params:acme:error:rateLimited', detail: 'too many certificates' };
    world.responses['/order'] = { status: 429, body, headers: { 'retry-after': header } };
    const { message, retryAfterMs = 0 } = await world.order();
    assert.is(message, 'too many certificates');
    assert.ok(retryAfterMs >= least && retryAfterMs <= most, `${header}: ${retryAfterMs}`);
  }
});

test('an account that the authority forgot is registered again by the next order', async (world) => {
  const detail = 'unknown account';
  world.responses['/order'] = { status: 400, body: { type: 'urn:ietf:params:acme:error:accountDoesNotExist', detail } };
  for (let round = 0; round < 2; round++) assert.is((await world.order()).message, detail);
  assert.is(world.requests.filter((each) => each === '/account').length, 2);
});

test('a damaged key of the account is named, with the fix, and none of it is shown', async (world) => {
  await writeFile(world.folder.accountKey, 'half of a key');
  const { message } = await world.order();
  assert.match(message, /account\.key/);
  assert.not.match(message, /half of a key/);
});

test.run();
