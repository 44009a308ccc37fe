import type { IncomingMessage } from 'node:http';
import { BlockList } from 'node:net';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { comesFrom, ofTrustedProxies } from './client-address.js';

const proxies = new BlockList();
proxies.addAddress('127.0.0.1');
proxies.addAddress('192.0.2.1');
const addressOf = ofTrustedProxies(proxies);

const OVER_UNIX_SOCKET = undefined;
const request = (remoteAddress: string | undefined, forwarded?: string) =>
  ({ socket: { remoteAddress }, headers: { 'x-forwarded-for': forwarded } }) as unknown as IncomingMessage;

for (const [remoteAddress, forwarded, expected] of [
  ['203.0.113.5', '198.51.100.1', '203.0.113.5'],
  ['127.0.0.1', '198.51.100.1, 203.0.113.5', '203.0.113.5'],
  ['127.0.0.1', '203.0.113.5, 192.0.2.1', '203.0.113.5'],
  [OVER_UNIX_SOCKET, '198.51.100.1, 203.0.113.5', '203.0.113.5'],
  [OVER_UNIX_SOCKET, '203.0.113.5, 192.0.2.1', '203.0.113.5'],
  [OVER_UNIX_SOCKET, 'unix:', ''],
  [OVER_UNIX_SOCKET, undefined, ''],
] as const) {
  test(`the address of a request from ${remoteAddress ?? 'a Unix socket'} for ${forwarded} is ${expected}`, () => {
    assert.is(addressOf(request(remoteAddress, forwarded)), expected);
  });
}

test('X-Forwarded-For does not change the address that a listener knows', () => {
  const incoming = request(OVER_UNIX_SOCKET, '203.0.113.5');
  comesFrom(incoming, 'fd00::1');
  assert.is(addressOf(incoming), 'fd00::1');
});

test.run();
