import { networkInterfaces } from 'node:os';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { addressesOf, NOT_PUBLIC, refusedRanges, within } from './addresses.js';
import { connectionsOf, readReach } from './reach.js';

const to = (port: number) => ({ host: 'any', port });
/** A link-local address stays closed, whatever the installation allows. */
const isLinkLocal = (address: string) => address.startsWith('fe80') || address.startsWith('169.254.');
const own = Object.values(networkInterfaces()).flatMap((each = []) => each.map(({ address }) => address));

test('the addresses of this machine are refused unless the installation allows them', () => {
  const closed = connectionsOf({ allowed: ['10.1.0.0/16'] });
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', ...own]) assert.not(closed(address, to(80)), address);
  assert.ok(closed('10.1.2.3', to(80)));
  assert.ok(closed('8.8.8.8', to(80)));
});

test('no allowed network opens a port at which the platform listens on this machine', () => {
  const allows = connectionsOf({ allowed: ['0.0.0.0/0', '::/0'], ownPorts: [4000, 4002] });
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', ...own.filter((each) => !isLinkLocal(each))]) {
    assert.ok(allows(address, to(4001)), address);
    for (const port of [4000, 4002]) assert.not(allows(address, to(port)), address);
  }
  assert.ok(allows('10.1.2.3', to(4000)), 'the port of another machine');
});

test('an IPv4-mapped address passes neither the metadata addresses nor the ports of the platform', () => {
  const allows = connectionsOf({ allowed: ['::ffff:0:0/96', '::/0', '127.0.0.0/8'], ownPorts: [4000] });
  for (const address of ['::ffff:169.254.169.254', '::ffff:127.0.0.1', '::ffff:7f00:1']) {
    assert.not(allows(address, to(4000)), address);
    assert.not(allows(address, to(80)), address);
  }
});

test('the reach names an invalid variable', () => {
  assert.equal(readReach({}), { allowed: [], ownPorts: [] });
  const variables = { SLIPWAY_ALLOWED_NETWORKS: '10.1.0.0/16, fd00::/8', SLIPWAY_OWN_PORTS: '1,2' };
  assert.equal(readReach(variables), { allowed: ['10.1.0.0/16', 'fd00::/8'], ownPorts: [1, 2] });
  for (const value of ['10.1.0.0', 'office', '10.1.0.0/33', '10.1.0.0/16;::/0'])
    assert.throws(() => readReach({ SLIPWAY_ALLOWED_NETWORKS: value }), /^SLIPWAY_ALLOWED_NETWORKS must be a list/);
  assert.throws(() => readReach({ SLIPWAY_OWN_PORTS: 'x' }), /SLIPWAY_OWN_PORTS/);
});

test('the refused ranges are the ones that are not public, without the allowed networks', () => {
  assert.equal([...refusedRanges([])].sort(), [...NOT_PUBLIC].sort());
  const allowed = ['10.1.0.0/16', '192.168.7.9/32', '172.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', 'fd00::/8'];
  const isRefused = within(refusedRanges(allowed));
  const opened = ['10.1.0.0', '10.1.255.255', '192.168.7.9', '172.16.0.1', '172.31.255.255'];
  const closed = ['10.0.255.255', '10.2.0.0', '192.168.7.8', '192.168.7.10', '127.0.0.1', '169.254.169.254', '0.0.0.1'];
  for (const address of opened) assert.not(isRefused(address), address);
  for (const address of closed) assert.ok(isRefused(address), address);
});

test('the refused ranges agree with the addresses of the same networks', () => {
  const allowed = ['10.64.0.0/10', '192.168.128.0/17', '100.100.0.0/16'];
  const [isRefused, isAllowed] = [within(refusedRanges(allowed)), addressesOf({ allowed })];
  for (let step = 0; step < 20_000; step += 1) {
    const address =
      [10, 100, 192, 11][step % 4] + [7919, 104_729, 31].map((prime) => `.${(step * prime) % 256}`).join('');
    assert.is(isRefused(address), !isAllowed(address), address);
  }
});

test.run();
