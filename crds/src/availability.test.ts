import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { availableServices, openedServices } from './availability.js';

test('a shared project has neither storage nor functions, on no plan, until its installation opens them', () => {
  assert.equal(availableServices('shared', 'free', {}), ['rest', 'auth', 'realtime']);
  assert.equal(availableServices('shared', 'enterprise', openedServices('')), ['rest', 'auth', 'realtime']);
  assert.ok(availableServices('shared', 'free', openedServices(' storage, functions')).includes('storage'));
  assert.not.ok(availableServices('shared', 'free', openedServices('functions')).includes('storage'));
});

test('a dedicated project has all services, and what shared ones are given changes no other type', () => {
  assert.is(availableServices('dedicated', 'free', {}).length, 5);
  assert.equal(availableServices('frontend', 'pro', openedServices('storage')), []);
});

test('a name that is no service is refused by the name of the setting', () => {
  assert.throws(
    () => openedServices('storage,disk'),
    /SLIPWAY_SERVICES_SHARED names "disk": it is a list of rest, auth/,
  );
});

test.run();
