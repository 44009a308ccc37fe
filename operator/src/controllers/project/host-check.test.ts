/** Tests which hosts in settings are reported as refused: by the data plane's rules, in all forms of an address. */
import { tenantReach } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Lookup, systemLookup } from '../../runtime/host-addresses.js';
import { HostCheck, namesOf } from './host-check.js';

const installation = { publicUrl: 'http://localhost:4000' };
const to = (host: string, port = 25) => ({ setting: 'GOTRUE_SMTP_HOST', host, port });

function start(lookup: Lookup, allowed: string[] = []) {
  const lines: Record<string, unknown>[] = [];
  const log = pino({ base: {} }, { write: (line) => void lines.push(JSON.parse(line)) });
  const clock = { now: 0 };
  const reach = tenantReach({ installation, reach: { allowed, ownPorts: [4001] } });
  const check = new HostCheck({ reach, lookup, log, now: () => clock.now });
  const changed: string[] = [];
  check.onChange((ref) => changed.push(ref));
  return { check, lines, clock, changed };
}

const looked: string[] = [];
/** A look-up that no test expects. */
const noLookup: Lookup = async (name) => {
  looked.push(name);
  return [];
};

test('a literal address is judged without a look-up', () => {
  const { check, lines } = start(noLookup, ['10.1.0.0/16', '127.0.0.2/32']);
  const refused = ['127.0.0.1', '10.2.0.1', '192.168.1.1', '169.254.169.254', '::1', 'fd00::1', '::ffff:127.0.0.1'];
  for (const host of refused) assert.equal(check.refusedOf('shop', [to(host)]), [to(host)], host);
  for (const host of ['8.8.8.8', '10.1.2.3', '127.0.0.2', '2606:4700::1111'])
    assert.equal(check.refusedOf('shop', [to(host)]), [], host);
  assert.equal(check.refusedOf('shop', [to('127.0.0.2', 4001)]), [to('127.0.0.2', 4001)], 'a port of the platform');
  assert.is(lines.length, 9);
  assert.equal(looked, []);
});

test('the public URL of the platform is not refused, and not resolved', () => {
  const { check } = start(noLookup);
  assert.equal(check.refusedOf('shop', [to('localhost', 4000), to('127.0.0.1', 4000), to('abc.localhost', 4000)]), []);
  assert.equal(check.refusedOf('shop', [to('127.0.0.1', 4001)]), [to('127.0.0.1', 4001)]);
  assert.equal(looked, []);
});

test('names and other forms of an address are refused by the addresses that the system resolves', async () => {
  const { check } = start(systemLookup);
  for (const host of ['localhost', '2130706433', '0x7f.1', '127.1', '0.0.0.0']) {
    assert.equal(await until(() => check.refusedOf('shop', [to(host)]), host), [to(host)]);
  }
});

test('a name is refused once all of its addresses are, and again allowed when it resolves to another one', async () => {
  const answers = ['127.0.0.1', '10.0.0.1'];
  const { check, lines, clock, changed } = start(async () => [...answers]);
  const look = () => check.refusedOf('shop', [to('mail.example')]);
  assert.is(look(), undefined, 'not known yet');
  await until(() => changed[0], 'the first look-up');
  assert.equal(look(), [to('mail.example')]);
  answers.push('8.8.8.8');
  clock.now = 11 * 60_000;
  look();
  await until(() => changed[1], 'the second look-up');
  assert.equal(look(), [], 'one address can be connected to');
  answers.splice(1);
  clock.now = 22 * 60_000;
  look();
  await until(() => changed[2], 'the third look-up');
  for (let again = 0; again < 3; again++) look();
  assert.equal(
    lines.map(({ msg, ref, settings }) => [msg, ref, settings]),
    [
      ['configured addresses refused', 'shop', ['GOTRUE_SMTP_HOST (mail.example:25)']],
      ['configured addresses allowed', 'shop', undefined],
      ['configured addresses refused', 'shop', ['GOTRUE_SMTP_HOST (mail.example:25)']],
    ],
  );
  assert.not.match(JSON.stringify(lines), '127.0.0.1');
});

test('a literal address is reported before names are resolved; a name without addresses is not refused', async () => {
  const ending = Promise.withResolvers<readonly string[]>();
  const { check, changed } = start(() => ending.promise);
  assert.equal(check.refusedOf('shop', [to('dead.example'), to('127.0.0.1')]), [to('127.0.0.1')]);
  assert.is(check.refusedOf('blog', [to('dead.example')]), undefined);
  ending.reject(new Error('ENOTFOUND'));
  await until(() => changed.includes('blog'), 'the end of the look-up');
  assert.equal(check.refusedOf('blog', [to('dead.example')]), []);
});

test('at most 32 names of a project are resolved, and a message names five settings', async () => {
  const asked: string[] = [];
  const { check, changed } = start(async (name) => {
    asked.push(name);
    return ['127.0.0.1'];
  });
  const hosts = Array.from({ length: 50 }, (_, index) => to(`host-${index}.example`));
  check.refusedOf('shop', hosts);
  await until(() => changed[0], 'the look-ups');
  assert.is(asked.length, 32);
  assert.is(check.refusedOf('shop', hosts)?.length, 32);
  const named = namesOf([to('::1'), to(`${'x'.repeat(200)}.example`), ...hosts]);
  assert.equal([named.length, named[0], named[5]], [6, 'GOTRUE_SMTP_HOST ([::1]:25)', '47 more']);
  assert.ok(named.every((name) => name.length < 130));
});

test.run();
