import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseAppUpstream } from './app-upstream.js';

test('an address of an app is an IP address or a name, with a port', () => {
  for (const [text, host, port] of [
    ['198.18.0.3:8080', '198.18.0.3', 8080],
    ['[2001:db8::7]:1', '2001:db8::7', 1],
    ['app.p-shop.svc:65535', 'app.p-shop.svc', 65535],
    ['app.p-shop.svc.:80', 'app.p-shop.svc.', 80],
    ['localhost:80', 'localhost', 80],
  ] as const)
    assert.equal(parseAppUpstream(text), { host, port }, text);
});

test('a text that is no address of an app is ignored', () => {
  for (const text of [
    undefined,
    '',
    ':80',
    '198.18.0.3',
    '198.18.0.3:',
    '198.18.0.3:0',
    '198.18.0.3:080',
    '198.18.0.3:65536',
    '198.18.0.3:99999999',
    '198.18.0.3:80 ',
    ' 198.18.0.3:80',
    '198.18.0.3:80\n',
    '198.18.0.3:80/x',
    'http://198.18.0.3:80',
    'a@198.18.0.3:80',
    '198.18.0.300:80',
    '198.18.3:80',
    '0x7f.1:80',
    '2130706433:80',
    '2001:db8::7:80',
    '[198.18.0.3]:80',
    '[fe80::1%eth0]:80',
    '[]:80',
    '-a:80',
    'a..b:80',
    'a_b:80',
    `${'a'.repeat(64)}:80`,
    '/run/app.sock:80',
  ])
    assert.is(parseAppUpstream(text), undefined, String(text));
});

test.run();
