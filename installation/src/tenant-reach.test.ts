import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { publicPlace, tenantReach } from './tenant-reach.js';

test('one machine allows public addresses, allowed networks and the public URL, and refuses its own ports', () => {
  const installation = { publicUrl: 'http://localhost:4000' };
  const { allows, allowsHost, reason } = tenantReach({
    installation,
    reach: { allowed: ['10.1.0.0/16', '127.0.0.0/8'], ownPorts: [4001] },
  });
  assert.match(reason, 'SLIPWAY_ALLOWED_NETWORKS');
  const mail = { host: 'mail.example.com', port: 25 };
  for (const address of ['8.8.8.8', '10.1.2.3', '127.0.0.1']) assert.ok(allows(address, mail), address);
  for (const address of ['10.2.0.1', '::1', '::ffff:127.0.0.1', '::ffff:10.1.2.3', '169.254.169.254'])
    assert.not(allows(address, mail), address);
  assert.not(allows('127.0.0.1', { ...mail, port: 4001 }), 'a port of the platform');
  assert.ok(allowsHost({ host: 'localhost', port: 4000 }) && allows('::1', { host: 'localhost', port: 4000 }));
  assert.not(allowsHost(mail));
  const closed = tenantReach({ installation });
  assert.not(closed.allows('127.0.0.1', mail) || closed.allows('10.1.2.3', mail));
});

test('a cluster refuses blockedAddresses, and names a network that is no CIDR', () => {
  const site = (blockedAddresses: string[]) =>
    tenantReach({ installation: { publicUrl: 'https://slipway.example.com', site: { blockedAddresses } as never } });
  const { allows, allowsHost, reason } = site(['9.9.9.0/24']);
  const platform = { host: 'slipway.example.com', port: 443 };
  assert.ok(allows('8.8.8.8', platform));
  assert.not(allows('9.9.9.9', platform) || allows('10.1.2.3', platform) || allowsHost(platform));
  assert.match(reason, 'blockedAddresses');
  assert.throws(() => site(['10.0.0.0/99']), /blockedAddresses of the site: 10\.0\.0\.0\/99 is no CIDR/);
});

test('the public place is the host and port of the public URL and of the projects', () => {
  const place = (publicUrl: string, projectsDomain?: string) => publicPlace({ publicUrl, projectsDomain });
  const far = place('https://slipway.example.com', 'projects.example.net:8443');
  assert.ok(far({ host: 'slipway.example.com', port: 443 }));
  assert.ok(far({ host: 'abc.projects.example.net', port: 8443 }));
  for (const [host, port] of [
    ['slipway.example.com', 80],
    ['slipway.example.com', 8443],
    ['abc.projects.example.net', 443],
    ['evil-projects.example.net', 8443],
    ['slipway.example.com.evil.example', 443],
    ['localhost', 443],
    ['127.0.0.1', 443],
  ] as const)
    assert.not(far({ host, port }), `${host}:${port}`);
  const alone = place('https://example.com');
  assert.ok(alone({ host: 'example.com', port: 443 }));
  assert.not(alone({ host: 'intranet.example.com', port: 443 }), 'a host of others below the public name');
  assert.ok(place('http://localhost:4000')({ host: 'abc.localhost', port: 4000 }), 'a site on this machine');
  const near = place('http://127.0.0.1:4000');
  assert.ok(near({ host: 'localhost', port: 4000 }) && near({ host: '::1', port: 4000 }));
  assert.not(near({ host: '10.127.0.0.1', port: 4000 }) || near({ host: 'localhost', port: 4001 }));
});

test.run();
