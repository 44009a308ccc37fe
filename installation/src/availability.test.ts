import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { availableServices, openedServices, whyTypeUnavailable } from './availability.js';

test('a shared project has no storage and functions, on any plan, until its installation opens them', () => {
  assert.equal(availableServices('shared', 'free', {}), ['rest', 'auth', 'realtime']);
  assert.equal(availableServices('shared', 'enterprise', openedServices('')), ['rest', 'auth', 'realtime']);
  assert.ok(availableServices('shared', 'free', openedServices(' storage, functions')).includes('storage'));
  assert.not.ok(availableServices('shared', 'free', openedServices('functions')).includes('storage'));
});

test('the setting all opens every service to shared projects, and the setting none opens no service', () => {
  assert.equal(openedServices('all').shared, ['rest', 'auth', 'realtime', 'storage', 'functions']);
  assert.equal(availableServices('shared', 'free', openedServices(' none ')), ['rest', 'auth', 'realtime']);
  assert.throws(() => openedServices('all,storage'), /SLIPWAY_SERVICES_SHARED names "all"/);
});

test('a dedicated project has all services, and the setting for shared projects changes no other type', () => {
  assert.is(availableServices('dedicated', 'free', {}).length, 5);
  assert.equal(availableServices('frontend', 'pro', openedServices('storage')), []);
});

test('the reason for an unavailable type names the missing capability, and the available types', () => {
  const local = { publicUrl: 'http://localhost:4000' };
  assert.is(whyTypeUnavailable('shared', local), undefined);
  assert.is(whyTypeUnavailable('frontend', local), undefined);
  assert.is(
    whyTypeUnavailable('dedicated', local),
    'projects of type dedicated are not available on this installation (available: shared, frontend), ' +
      'which has no provider of machines: set SLIPWAY_HCLOUD_TOKEN_FILE, on one machine',
  );
  const open = { publicUrl: 'https://backend.example.com' };
  assert.match(
    whyTypeUnavailable('frontend', open) ?? '',
    '(available: shared), which has no domain for sites: set SLIPWAY_PROJECTS_DOMAIN, on a cluster projectsDomain',
  );
  assert.is(whyTypeUnavailable('frontend', { ...open, projectsDomain: 'pages.example.net' }), undefined);
});

test('an unknown service is rejected with the name of the setting', () => {
  assert.throws(
    () => openedServices('storage,disk'),
    /SLIPWAY_SERVICES_SHARED names "disk": it is all, none, or a list of rest, auth/,
  );
});

test.run();
