import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { contains } from '../http/client-address.js';
import { readUnitSettings } from './settings.js';

const REST = {
  SLIPWAY_MACHINE_SERVICE: 'rest',
  SLIPWAY_MACHINE_PROJECT: '/etc/slipway/project.json',
  SLIPWAY_LISTEN: '/run/slipway/rest.sock',
};
const FUNCTIONS = {
  ...REST,
  SLIPWAY_MACHINE_SERVICE: 'functions',
  SLIPWAY_FUNCTIONS_DIR: '/var/lib/slipway/functions',
  SLIPWAY_FUNCTIONS_SOCKET: '/run/slipway/functions.sock',
  SLIPWAY_DATAPLANE_URL: 'http://127.0.0.1:8000',
};

test('a service needs its name, the document and an address to listen at', () => {
  assert.equal(readUnitSettings(REST).unit, { service: 'rest' });
});

test('functions get the folder, the control socket and the URL of the proxy', () => {
  const { unit } = readUnitSettings(FUNCTIONS);
  assert.ok(unit.service === 'functions');
  assert.equal(unit.functions, {
    home: '/var/lib/slipway/functions',
    control: { socket: '/run/slipway/functions.sock' },
    gatewayUrl: 'http://127.0.0.1:8000',
    authorities: undefined,
  });
});

test('proxies of this machine are trusted beside those of the setting', () => {
  const { trustedProxies } = readUnitSettings({ ...REST, SLIPWAY_TRUSTED_PROXIES: '203.0.113.7' });
  const addresses = ['127.0.0.1', '::1', '203.0.113.7', '203.0.113.8'];
  assert.equal(
    addresses.map((address) => contains(trustedProxies, address)),
    [true, true, true, false],
  );
});

for (const [name, environment] of [
  ['SLIPWAY_MACHINE_SERVICE', { ...REST, SLIPWAY_MACHINE_SERVICE: 'postgrest' }],
  ['SLIPWAY_MACHINE_PROJECT', { ...REST, SLIPWAY_MACHINE_PROJECT: 'project.json' }],
  ['SLIPWAY_LISTEN', { ...REST, SLIPWAY_LISTEN: '' }],
  ['SLIPWAY_STORAGE_DIR', { ...REST, SLIPWAY_MACHINE_SERVICE: 'storage' }],
  ['SLIPWAY_FUNCTIONS_DIR', { ...REST, SLIPWAY_MACHINE_SERVICE: 'functions' }],
  ['SLIPWAY_DATAPLANE_URL', { ...FUNCTIONS, SLIPWAY_DATAPLANE_URL: '' }],
] as const) {
  test(`a missing or invalid ${name} is named`, () => {
    assert.throws(() => readUnitSettings(environment), new RegExp(`^${name} `));
  });
}

test.run();
