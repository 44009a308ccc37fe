/**
 * Tests requests of functions to private IPv6 addresses, which Deno can deny only one by one. Each request fails before
 * a packet is sent: the kernel opens no socket, or Deno denies the address.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { networkInterfaces } from 'node:os';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isolation } from './isolation.js';
import { startTestFunctions, type TestFunctions } from './testing.js';

const ADDRESSES = [
  'fd12:3456::1',
  'fc00::1',
  'fe80::1%1',
  '::1',
  '::ffff:127.0.0.1',
  '::ffff:10.0.0.1',
  '::ffff:0:127.0.0.1',
  '::127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b:1::a00:1',
  '2002:7f00:1::1',
  '2001:0:7f00:1::1',
  'fec0::1',
  'ff02::1',
];
/** Expressions that resolve if a connection was made, and otherwise reject. */
const WAYS = `{
  'Deno.connect': () => Deno.connect({ hostname, port }),
  'Deno.connectTls': () => Deno.connectTls({ hostname, port }).then((taken) => taken.handshake()),
  'node:net': () => new Promise((done, no) =>
    net.connect({ host: hostname, port }).on('connect', done).on('error', no)),
  'node:dgram': () => new Promise((done, no) => dgram.createSocket('udp6').on('error', no)
    .send('x', port, hostname, (error) => error ? no(error) : done())),
  fetch: () => fetch(url),
  'an import': () => import(url),
  'a DNS query': () => Deno.resolveDns('a.test', 'A', { nameServer: { ipAddr: hostname.split('%')[0], port } }),
}`;
const CODE = `
  import net from 'node:net';
  import dgram from 'node:dgram';
  import process from 'node:process';
  let onUncaught = () => undefined;
  process.on('uncaughtException', (error) => onUncaught(error));
  const reasonOf = (error) => [error?.name, error?.message, error?.code,
    error?.cause && reasonOf(error.cause), error?.errors?.map(reasonOf)].flat().join(' ');
  const outcomeOf = (way) => new Promise((done) => {
    const fail = (error) => done('refused: ' + reasonOf(error));
    onUncaught = fail;
    setTimeout(() => done('no answer'), 2_000);
    Promise.resolve().then(way).then(() => done('connected'), fail);
  });
  Deno.serve(async (request) => {
    const { hostname, port } = await request.json();
    const url = 'http://[' + hostname.split('%')[0] + ']:' + port + '/';
    const outcomes = {};
    for (const [name, way] of Object.entries(${WAYS})) outcomes[name] = await outcomeOf(way);
    return Response.json(outcomes);
  });`;
/** Matches the error messages of the kernel, and of Deno before it calls the kernel. */
const REFUSED =
  /^refused: .*(os error 97|EAFNOSUPPORT|Requires net access|Invalid hostname|--cached-only is specified)/;

let functions: TestFunctions;
/**
 * Server at an address in place of another machine's in the private network: the machine's own addresses are not denied
 * in this test.
 */
let neighbour: Server;
let reached = 0;

test.before(async () => {
  neighbour = createServer((_, outgoing) => outgoing.end('reached')).on('connection', () => reached++);
  await new Promise<void>((resolve) => neighbour.listen(0, '::', resolve));
  functions = await startTestFunctions({}, undefined, { ownAddresses: () => [] });
  assert.equal(await functions.deploy('evil', 'evil', CODE), { state: 'ready' });
});
test.after(async () => {
  await functions?.close();
  neighbour?.closeAllConnections();
  neighbour?.close();
});

async function attack(hostname: string): Promise<Record<string, string>> {
  const { port } = neighbour.address() as AddressInfo;
  const response = await fetch(`${functions.url('evil')}/evil`, {
    method: 'POST',
    body: JSON.stringify({ hostname, port }),
  });
  return (await response.json()) as Record<string, string>;
}

const machines = Object.values(networkInterfaces())
  .flatMap((addresses = []) => addresses)
  .filter(({ family, scopeid }) => family === 'IPv6' && !scopeid)
  .map(({ address }) => address);

if (!isolation().filtersSockets) console.log('# skipped: the system filters no sockets');
else
  for (const address of new Set([...ADDRESSES, ...machines]))
    test(`a function cannot reach ${address}`, async () => {
      for (const [way, outcome] of Object.entries(await attack(address)))
        assert.match(outcome, REFUSED, `${way}: ${outcome}`);
      assert.is(reached, 0);
    });

test('a function cannot listen at an IPv6 address', async () => {
  const listening = `Deno.serve(async () => {
    try { Deno.listen({ hostname: '2001:db8::1', port: 0 }); return new Response('listens'); }
    catch (error) { return new Response('refused: ' + error.message); }
  });`;
  await functions.deploy('evil', 'listening', listening);
  assert.match(await (await fetch(`${functions.url('evil')}/listening`)).text(), REFUSED);
});

test.run();
