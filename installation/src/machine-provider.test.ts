/** Tests the settings of the provider of machines. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import {
  readMachineLabel,
  readMachineMost,
  readMachineOrphans,
  readMachineSnapshot,
  readMachineUrl,
} from './machine-provider.js';

test('a label is a part of a host name', () => {
  for (const label of ['a', 'shop-1', 'a'.repeat(20)]) assert.is(readMachineLabel(label), label);
  for (const label of ['Shop', '-a', 'a-', 'a.b', 'a b', 'a\n', 'a'.repeat(21)]) {
    assert.throws(() => readMachineLabel(label), /SLIPWAY_HCLOUD_LABEL is "/, label);
  }
  assert.is(readMachineLabel(''), undefined);
  assert.is(readMachineLabel(undefined), undefined);
});

test('an address of the provider is a URL without a login', () => {
  assert.is(readMachineUrl('http://127.0.0.1:18500/v1'), 'http://127.0.0.1:18500/v1');
  assert.is(readMachineUrl(''), undefined);
  for (const url of ['ftp://a/v1', 'a', 'https://user:word@a/v1', 'https://a/v1?x=1', 'https://a/v1#x']) {
    assert.throws(() => readMachineUrl(url), /SLIPWAY_HCLOUD_URL is "/, url);
  }
});

test('new machines boot from a snapshot unless the setting is off', () => {
  assert.equal([undefined, '', 'on', 'off'].map(readMachineSnapshot), [true, true, true, false]);
  assert.throws(() => readMachineSnapshot('no'), /SLIPWAY_HCLOUD_SNAPSHOT is "no": set on or off/);
});

test('machines of no project are deleted only if the setting says so', () => {
  assert.equal([undefined, '', 'keep', 'delete'].map(readMachineOrphans), [false, false, false, true]);
  assert.throws(() => readMachineOrphans('yes'), /SLIPWAY_HCLOUD_ORPHANS is "yes": set keep or delete/);
});

test('the most machines are a number', () => {
  assert.equal([undefined, '', '0', '250'].map(readMachineMost), [20, 20, 0, 250]);
  for (const value of ['-1', 'many', '1e3', '10000', ' 5']) {
    assert.throws(() => readMachineMost(value), /SLIPWAY_HCLOUD_MAX_MACHINES is ".*": set a number/, value);
  }
});

test.run();
