/** Tests outgoing connections, with real servers on this machine in place of servers inside a cluster. */

import dns from 'node:dns';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { syncBuiltinESMExports } from 'node:module';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addressesOf } from './addresses.js';
import { AddressRefused, outboundTo } from './outbound.js';

async function startInside() {
  let reached = 0;
  const server = createTcpServer((socket) => {
    reached += 1;
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, reached: () => reached, close: () => server.close() };
}

test('a public address is allowed unless the site blocks it', () => {
  const allows = addressesOf({ blocked: ['9.9.9.0/24', '2620:fe::/48'] });
  for (const address of ['8.8.8.8', '1.1.1.1', '2606:4700::1111']) assert.ok(allows(address), address);
  const refused = [
    ...['10.96.0.1', '127.0.0.1', '169.254.169.254', '192.168.1.1', '172.31.0.1', '100.64.0.1', '0.0.0.0', '9.9.9.9'],
    ...['192.0.0.8', '198.18.0.1', '224.0.0.1', '255.255.255.255', 'localhost', ''],
    ...['::1', '::', '::ffff:10.0.0.1', '::ffff:8.8.8.8', '64:ff9b::a00:1', '2002:a00:1::1', 'fd00::1', 'fe80::1'],
    ...['2620:fe::fe', 'ff02::1', '2001:db8::1'],
  ];
  for (const address of refused) assert.not.ok(allows(address), address);
});

test('allowed networks match only their own family, and never link-local addresses', () => {
  const allows = addressesOf({ allowed: ['10.1.0.0/16', 'fd00:1::/32', '169.254.0.0/16', 'fe80::/10'] });
  for (const address of ['10.1.2.3', 'fd00:1::5', '8.8.8.8']) assert.ok(allows(address), address);
  for (const address of [
    '10.2.0.1',
    'fd00:2::5',
    '169.254.169.254',
    'fe80::1',
    'fe80::1%lo',
    '::ffff:10.1.2.3',
    'x',
    '',
  ])
    assert.not(allows(address), address);
  assert.not(addressesOf({ allowed: ['0.0.0.0/0', '::/0'] })('fd00:ec2::254'));
});

test('an address of the cluster is never connected to, in any notation or through any name', async () => {
  const inside = await startInside();
  const outbound = outboundTo(addressesOf({}));
  for (const host of ['127.0.0.1', 'localhost', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', '0.0.0.0']) {
    const why = await outbound.fetch(`http://${host}:${inside.port}/`).then(
      () => undefined,
      ({ cause }: Error) => cause,
    );
    assert.instance(why, AddressRefused, host);
    const refusal = await outbound.connect(host.replace(/[[\]]/g, ''), inside.port, 5_000).then(
      () => undefined,
      (error: Error) => error,
    );
    assert.instance(refusal, AddressRefused, host);
  }
  assert.is(inside.reached(), 0);
  await outbound.close();
  inside.close();
});

test('allowed addresses can be reached by name and by address, and a name resolves only to allowed ones', async () => {
  const server = createServer((_, response) => response.end('reached'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const outbound = outboundTo((address) => address === '127.0.0.1');
  for (const host of ['127.0.0.1', 'localhost']) {
    assert.is(await (await outbound.fetch(`http://${host}:${port}/`)).text(), 'reached');
    const socket = await outbound.connect(host, port, 5_000);
    assert.is(socket?.remoteAddress, '127.0.0.1');
    socket?.destroy();
  }
  const refusal = await outbound.connect('127.0.0.2', port, 5_000).catch((error: Error) => error);
  assert.instance(refusal, AddressRefused);
  assert.match((refusal as Error).message, 'an administrator can allow its network in SLIPWAY_ALLOWED_NETWORKS');
  await outbound.close();
  server.closeAllConnections();
  server.close();
});

test('a name that changes its address between two lookups leads nowhere inside', async () => {
  const inside = await startInside();
  const original = dns.lookup;
  const answers: string[] = [];
  // The name server of an attacker: every second answer is inside. The public address has nothing to connect to.
  const changing = (_host: string, _options: object, done: (error: null, found: object[]) => void) => {
    answers.push(answers.length % 2 === 0 ? '192.0.2.1' : '127.0.0.1');
    done(null, [{ address: answers.at(-1), family: 4 }]);
  };
  Object.assign(dns, { lookup: changing });
  syncBuiltinESMExports();
  const outbound = outboundTo((address) => address === '192.0.2.1');
  try {
    for (let count = 0; count < 4; count += 1) {
      const url = `http://changing.example:${inside.port}/`;
      await outbound.fetch(url, { signal: AbortSignal.timeout(200) }).catch(() => undefined);
      await outbound.connect('changing.example', inside.port, 200).catch(() => undefined);
    }
    assert.ok(answers.length >= 8, 'each connection looks the name up once');
    assert.is(inside.reached(), 0);
  } finally {
    Object.assign(dns, { lookup: original });
    syncBuiltinESMExports();
    await outbound.close();
    inside.close();
  }
});

test.run();
