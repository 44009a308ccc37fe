/** Tests the forwarder of DNS queries with hostile containers and hostile resolvers, at addresses of loopback. */
import { createSocket } from 'node:dgram';
import { Resolver } from 'node:dns/promises';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { addressesOf } from '@slipway/program';
import { freePort, until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { DnsForwarder, IN_FLIGHT, QUERY_RATE } from './dns-forwarder.js';
import { responseWith, startResolver, type Zone } from './dns-resolver.testing.js';

const test = suite('dns forwarder');
const HOST = '127.0.0.1';
const PUBLIC = '11.0.0.5';
const ends: (() => void)[] = [];

test.after.each(() => {
  for (const end of ends.splice(0)) end();
});

/** A forwarder whose only resolver knows the zone. */
async function forwarderOf(zone: Zone, resolvers: string[] = []) {
  const resolver = await startResolver(zone);
  const port = await freePort();
  const forwarder = new DnsForwarder({
    reaches: addressesOf({ allowed: ['10.9.0.0/16'] }),
    resolvers: () => [...resolvers, resolver.address],
    log: pino({ level: 'silent' }),
    port,
  });
  forwarder.open(HOST);
  ends.push(() => forwarder.closeAll(), resolver.close);
  const client = new Resolver({ timeout: 5_000, tries: 1 });
  client.setServers([`${HOST}:${port}`]);
  const resolve = (name: string) => client.resolve4(name).catch(({ code }: NodeJS.ErrnoException) => code);
  // The forwarder has begun to listen.
  await until(async () => (await resolve('localhost')) === 'ENOTFOUND', 'it responds');
  return { resolver, forwarder, port, client, resolve };
}

function queryOf(name: string, type = 1, id = 7): Buffer {
  const labels = name.split('.').flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)]);
  const header = Buffer.from([id >> 8, id & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
  return Buffer.concat([header, ...labels, Buffer.from([0, type >> 8, type & 255, 0, 1])]);
}

/** Sends datagrams, and returns the responses of the next milliseconds. */
async function responsesTo(port: number, datagrams: Buffer[], milliseconds = 300): Promise<Buffer[]> {
  const socket = createSocket('udp4');
  const responses: Buffer[] = [];
  socket.on('message', (message) => responses.push(message));
  for (const datagram of datagrams) socket.send(datagram, port, HOST);
  await sleep(milliseconds);
  socket.close();
  return responses;
}

test('public and allowed addresses are resolved, by the next resolver if one is silent', async () => {
  const silent = createSocket('udp4');
  silent.bind(0, HOST);
  await once(silent, 'listening');
  ends.push(() => silent.close());
  const zone = { 'a.example.com': PUBLIC, 'b.example.com': '10.9.0.1' };
  const { resolve } = await forwarderOf(zone, [`${HOST}:${silent.address().port}`]);
  const found = await Promise.all(['a.example.com', 'b.example.com', 'c.example.com'].map(resolve));
  assert.equal(found, [[PUBLIC], ['10.9.0.1'], 'ENOTFOUND']);
});

test('a name that leads to an address which is closed does not exist', async () => {
  const both = (query: Buffer) => {
    const response = responseWith(query, PUBLIC);
    const second = responseWith(query, '127.0.0.1').subarray(-16);
    response.writeUInt16BE(2, 6);
    return [Buffer.concat([response, second])];
  };
  const zone = {
    'rebound.example.com': '192.168.0.1',
    'metadata.example.com': '169.254.169.254',
    'links.example.com': '198.18.0.3',
    'both.example.com': both,
    'six.example.com': (query: Buffer) => [responseWith(query, 'fd00:0:0:0:0:0:0:1')],
    'mapped.example.com': (query: Buffer) => [responseWith(query, '0:0:0:0:0:ffff:7f00:1')],
  };
  const { resolve, client } = await forwarderOf(zone);
  for (const name of Object.keys(zone)) assert.is(await resolve(name), 'ENOTFOUND', name);
  for (const name of ['six', 'mapped']) {
    const code = await client.resolve6(`${name}.example.com`).catch((error: NodeJS.ErrnoException) => error.code);
    assert.is(code, 'ENOTFOUND', name);
  }
});

test('names of the network of the machine are not forwarded', async () => {
  const { resolve, client, resolver } = await forwarderOf({ 'metadata.google.internal': PUBLIC, printer: PUBLIC });
  for (const name of ['metadata.google.internal', 'printer', 'db.corp', 'host.local', 'LOCALHOST']) {
    assert.is(await resolve(name), 'ENOTFOUND', name);
  }
  for (const address of ['10.0.0.1', '192.168.1.1', '::1', 'fd00::1']) {
    const code = await client.reverse(address).catch((error: NodeJS.ErrnoException) => error.code);
    assert.is(code, 'ENOTFOUND', address);
  }
  assert.equal(resolver.queries, []);
});

test('messages that are no query, or too large, get no response and are not forwarded', async () => {
  const { port, resolver } = await forwarderOf({});
  const reply = queryOf('a.example.com');
  reply.writeUInt16BE(0x8180, 2);
  const update = queryOf('a.example.com');
  update.writeUInt16BE(0x2800, 2);
  const loop = Buffer.concat([queryOf('a').subarray(0, 12), Buffer.from([0xc0, 12, 0, 1, 0, 1])]);
  const large = Buffer.concat([queryOf('a.example.com'), Buffer.alloc(2000)]);
  const whole = queryOf('a.example.com');
  const cut = Array.from({ length: whole.length }, (_, length) => whole.subarray(0, length));
  const others = [reply, update, loop, large, queryOf('example.com', 252), ...cut];
  assert.equal(await responsesTo(port, others), []);
  assert.equal(resolver.queries, []);
});

test('responses with another id or question, and such that are cut, are not passed on', async () => {
  const otherId = (query: Buffer) => {
    const response = responseWith(query, PUBLIC);
    response.writeUInt16BE((response.readUInt16BE(0) + 1) % 0x10000, 0);
    return response;
  };
  const { resolve } = await forwarderOf({
    'id.example.com': (query) => [otherId(query), responseWith(query, '11.0.0.6')],
    'question.example.com': (query) => {
      const other = queryOf('question.example.org', 1, query.readUInt16BE(0));
      return [responseWith(other, PUBLIC), responseWith(query, '11.0.0.6')];
    },
    'cut.example.com': (query) => [responseWith(query, PUBLIC).subarray(0, -1)],
    'loop.example.com': (query) => {
      const response = responseWith(query, PUBLIC);
      response.fill(0x3f, response.length - 16);
      return [response];
    },
  });
  assert.equal(await resolve('id.example.com'), ['11.0.0.6']);
  assert.equal(await resolve('question.example.com'), ['11.0.0.6']);
  assert.is(await resolve('cut.example.com'), 'ESERVFAIL');
  assert.is(await resolve('loop.example.com'), 'ESERVFAIL');
});

test('a response that is cut off by UDP is read by TCP, and checked there too', async () => {
  const truncated = (address: string) => {
    let isFirst = true;
    return (query: Buffer) => {
      const response = responseWith(query, isFirst ? PUBLIC : address, isFirst ? 0x0200 : 0);
      isFirst = false;
      return [response];
    };
  };
  const zone = { 'long.example.com': truncated('11.0.0.6'), 'rebound.example.com': truncated('10.0.0.6') };
  const { resolve } = await forwarderOf(zone);
  assert.equal(await resolve('long.example.com'), ['11.0.0.6']);
  assert.is(await resolve('rebound.example.com'), 'ENOTFOUND');
});

test('queries of one container beyond its rate and its number in flight are dropped', async () => {
  const { port, resolver } = await forwarderOf({ 'silent.example.com': () => [] });
  const flood = Array.from({ length: IN_FLIGHT.ofOne * 3 }, (_, id) => queryOf('silent.example.com', 1, id));
  await responsesTo(port, flood);
  assert.is(resolver.queries.length, IN_FLIGHT.ofOne);
  const cheap = Array.from({ length: QUERY_RATE.burst * 3 }, (_, id) => queryOf('localhost', 1, id));
  await sleep(2_500);
  const responses = await responsesTo(port, cheap, 500);
  assert.ok(responses.length <= QUERY_RATE.burst + QUERY_RATE.perSecond, `${responses.length} responses`);
});

test('a connection of TCP with a query that is too long, or without one, is closed', async () => {
  const { port } = await forwarderOf({});
  const socket = connect({ port, host: HOST });
  socket.write(Buffer.from([0xff, 0xff, 0, 0]));
  await once(socket, 'close');
});

test('a port that is in use is tried again, and a closed address is free', async () => {
  const { forwarder, port, resolve, resolver } = await forwarderOf({ 'a.example.com': PUBLIC });
  const second = new DnsForwarder({
    reaches: addressesOf({}),
    resolvers: () => [resolver.address],
    log: pino({ level: 'silent' }),
    port,
  });
  ends.push(() => second.closeAll());
  second.open(HOST);
  await sleep(100);
  forwarder.close(HOST);
  await until(async () => Array.isArray(await resolve('a.example.com')), 'the second one responds');
});

test.run();
