/**
 * Tests the look-ups of tenants' names. The system's look-up is replaced: a name server that never answers would hold
 * the test for as long as the system waits.
 */

import dns, { type LookupAddress } from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import { setImmediate } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { HostLookups } from './host-lookups.js';

type Done = (error: Error | null, found?: LookupAddress[]) => void;

const original = dns.lookup;
/** Look-ups that the system is doing. */
let current: { name: string; done: Done }[] = [];

const test = suite('host look-ups');
test.before.each(() => {
  current = [];
  const lookup = (name: string, _: object, done: Done) => current.push({ name, done });
  Object.assign(dns, { lookup });
  syncBuiltinESMExports();
});
test.after.each(() => {
  Object.assign(dns, { lookup: original });
  syncBuiltinESMExports();
});

const names = () => current.map(({ name }) => name);

async function answer(name: string, error: Error | null = null): Promise<void> {
  const answered = current.find((lookup) => lookup.name === name);
  assert.ok(answered, `${name} is being looked up`);
  current = current.filter((lookup) => lookup !== answered);
  answered.done(error, [{ address: '192.0.2.1', family: 4 }]);
  await setImmediate();
}

test('callers of one name share a look-up, and a later caller gets a new one', async () => {
  const lookups = new HostLookups();
  const both = [lookups.addressesOf('hooks.example.com'), lookups.addressesOf('Hooks.Example.com')];
  assert.equal(names(), ['hooks.example.com']);
  await answer('hooks.example.com');
  const expected = [{ address: '192.0.2.1', family: 4 }];
  assert.equal(await Promise.all(both), [expected, expected]);

  const later = lookups.addressesOf('hooks.example.com').catch((error) => error);
  const failure = new Error('ENOTFOUND');
  await answer('hooks.example.com', failure);
  assert.is(await later, failure);
  void lookups.addressesOf('hooks.example.com');
  assert.equal(names(), ['hooks.example.com']);
});

test('names of a domain without an answer do not delay other names', async () => {
  const lookups = new HostLookups();
  for (let count = 0; count < 20; count++) void lookups.addressesOf(`${count}.silent.example`);
  assert.equal(names(), ['0.silent.example', '1.silent.example']);
  void lookups.addressesOf('hooks.example.com');
  assert.equal(names().at(-1), 'hooks.example.com');
});

test('owners of domains below the same public suffix have a share each', async () => {
  const lookups = new HostLookups();
  for (let count = 0; count < 3; count++) void lookups.addressesOf(`${count}.silent.co.uk`);
  void lookups.addressesOf('hooks.example.co.uk.');
  assert.equal(names(), ['0.silent.co.uk', '1.silent.co.uk', 'hooks.example.co.uk.']);
});

test('names of many domains without an answer take turns with others, and leave two threads', async () => {
  const lookups = new HostLookups();
  for (let count = 0; count < 100; count++) void lookups.addressesOf(`${count}.of.silent${count % 10}.example`);
  assert.is(current.length, 6);
  void lookups.addressesOf('hooks.example.com');
  assert.not(names().includes('hooks.example.com'));
  // Each of the ten domains has at most one turn more.
  for (let count = 0; count < 11; count++) await answer(names()[0] as string);
  assert.ok(names().includes('hooks.example.com'));
  assert.is(current.length, 6);
});

test('names that wait are limited, of one domain and of all', async () => {
  const lookups = new HostLookups();
  const refusals: string[] = [];
  const ask = (name: string) => void lookups.addressesOf(name).catch((error: Error) => refusals.push(error.message));
  for (let count = 0; count < 2 + 32 + 1; count++) ask(`${count}.silent.example`);
  await setImmediate();
  assert.equal(refusals, ['too many host names of silent.example, or of all domains, wait to be looked up']);
  for (let count = 0; count < 4 + 256 - 32; count++) ask(`name.of${count}.example`);
  await setImmediate();
  assert.is(refusals.length, 1);
  ask('one.more.example.com');
  await setImmediate();
  assert.is(refusals.length, 2);
});

test.run();
