/** Tests the proxy between a build and the network, with raw sockets, real redirects and real names. */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { type AddressInfo, connect, createServer as listenRaw } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ConnectionFailure, type EgressProxy, startEgressProxy } from './proxy.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
const [guarded, open] = [path.join(folder, 'guarded.sock'), path.join(folder, 'open.sock')];
const refused: [target: string, failure: ConnectionFailure][] = [];
const proxies: EgressProxy[] = [];
const server = createServer((incoming, response) => {
  if (incoming.url === '/away') response.writeHead(302, { location: 'http://169.254.169.254/latest' });
  response.end(`${incoming.method} ${incoming.url} ${JSON.stringify(incoming.headers)}`);
});
const echo = listenRaw((socket) => socket.on('error', () => undefined).pipe(socket));
const portOf = (of: { address(): unknown }) => (of.address() as AddressInfo).port;

test.before(async () => {
  for (const each of [server, echo]) await once(each.listen(0, '127.0.0.1'), 'listening');
  proxies.push(await startEgressProxy(guarded, { allowed: [] }, (...failure) => refused.push(failure)));
  proxies.push(
    await startEgressProxy(open, { allowed: ['127.0.0.0/8', '169.254.0.0/16'] }, (...failure) => refused.push(failure)),
  );
});
test.after(async () => {
  for (const each of [server, echo]) each.close();
  for (const proxy of proxies) await proxy.close();
  rmSync(folder, { recursive: true });
});

/** Returns the status of a CONNECT, and the bytes that the tunnel returns for `sent`. */
async function tunnel(socketPath: string, target: string, sent = ''): Promise<{ status: number; answer: string }> {
  const socket = connect(socketPath);
  socket.write(`CONNECT ${target} HTTP/1.1\r\nhost: ${target}\r\n\r\n${sent}`);
  let answer = '';
  const done = new Promise<void>((resolve) => {
    socket.on('data', (chunk) => {
      answer += chunk;
      if (sent !== '' && answer.endsWith(sent)) resolve();
    });
    socket.on('close', () => resolve());
    socket.on('error', () => resolve());
  });
  await done;
  socket.destroy();
  return { status: Number(answer.split(' ')[1]), answer };
}

async function get(socketPath: string, url: string) {
  const sent = request({ socketPath, path: url, headers: { 'proxy-authorization': 'x' } });
  sent.end();
  const [response] = await once(sent, 'response');
  return { status: response.statusCode as number, headers: response.headers, body: await text(response) };
}

test('a tunnel carries bytes both ways, and a plain request loses its proxy headers', async () => {
  const { status, answer } = await tunnel(open, `127.0.0.1:${portOf(echo)}`, 'to and fro');
  assert.is(status, 200);
  assert.match(answer, /to and fro$/);
  const { body } = await get(open, `http://127.0.0.1:${portOf(server)}/place?query=1`);
  assert.match(body, /^GET \/place\?query=1 /);
  assert.not.match(body, /proxy-/);
});

test('the proxy rejects addresses outside of the internet in every notation', async () => {
  const own = Object.values(networkInterfaces()).flatMap((each) => each?.map(({ address }) => address) ?? []);
  assert.ok(own.length > 0);
  const hosts = [
    '127.0.0.1',
    '127.1',
    '2130706433',
    '0x7f000001',
    '0177.0.0.1',
    'localhost',
    'LOCALHOST',
    '0.0.0.0',
    '10.0.0.1',
    '172.16.0.1',
    '192.168.0.1',
    '100.64.0.1',
    '169.254.169.254',
    '224.0.0.1',
    '255.255.255.255',
    '[::1]',
    '[::]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[64:ff9b::7f00:1]',
    '[fe80::1]',
    '[fd00::1]',
    '[2002:7f00:1::]',
    ...own.filter((address) => !address.includes('%')).map((each) => (each.includes(':') ? `[${each}]` : each)),
  ];
  for (const host of hosts) {
    refused.length = 0;
    const { status, answer } = await tunnel(guarded, `${host}:80`);
    assert.is(status, 403, `${host}: ${answer}`);
    assert.equal(
      refused.map(([target, { isRefused }]) => [target, isRefused]),
      [[`${host}:80`, true]],
    );
    assert.is((await get(guarded, `http://${host}/`)).status, 403, host);
  }
});

test('the proxy rejects a target that is not a host and a port', async () => {
  for (const target of ['', 'x', 'x:0', 'x:65536', 'x:25', '[fe80::1%lo]:80', 'a@127.0.0.1:80', '/etc:80', 'x:80:80'])
    assert.ok([400, 403].includes((await tunnel(open, target)).status), target);
  for (const url of ['https://127.0.0.1/', 'ftp://127.0.0.1/', 'file:///etc/passwd', '/local'])
    assert.is((await get(open, url)).status, 403, url);
});

test('the proxy rejects a redirect to a cloud’s metadata service even when its network is allowed', async () => {
  const url = `http://127.0.0.1:${portOf(server)}/away`;
  refused.length = 0;
  const redirect = await get(open, url);
  assert.is(redirect.status, 302);
  assert.is((await get(open, String(redirect.headers.location))).status, 403);
  assert.is((await get(open, 'http://169.254.169.254/latest')).status, 403);
  assert.is((await tunnel(open, '169.254.169.254:80')).status, 403);
  assert.equal([...new Set(refused.map(([target]) => target.includes('169.254.169.254')))], [true]);
});

test('the proxy resolves a name for each connection, and checks the address that it connects to', async () => {
  // The system resolves this name to the machine itself. A hostile name could do so after its first lookup.
  for (const socketPath of [guarded, open]) {
    const { status } = await tunnel(socketPath, `localhost:${portOf(echo)}`, 'hello');
    assert.is(status, socketPath === open ? 200 : 403);
  }
  refused.length = 0;
  assert.is((await tunnel(guarded, 'name.invalid:80')).status, 502);
  const [target, failure] = refused[0] ?? [];
  assert.equal([refused.length, target, failure?.isRefused], [1, 'name.invalid:80', false]);
  assert.match(failure?.why ?? '', /name\.invalid/);
});

test('the proxy closes its connections when it ends', async () => {
  const place = path.join(folder, 'short.sock');
  const short = await startEgressProxy(place, { allowed: ['127.0.0.0/8'] }, () => undefined);
  const ended = tunnel(place, `127.0.0.1:${portOf(echo)}`);
  await once(echo, 'connection');
  await short.close();
  await ended;
});

test.run();
