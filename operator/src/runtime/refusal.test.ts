import { KubeError } from '@slipway/kubernetes';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { refusalOf } from './refusal.js';

const of = (status: number, reason: string, message: string, resource = 'namespaces') =>
  refusalOf(new KubeError(status, reason, message, resource));

test('a rejected request is reported in the API server’s own words', () => {
  const policy =
    "namespaces \"p-shop\" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'all' denied request: " +
    'no cost centre';
  assert.equal(of(403, 'Forbidden', policy), { reason: 'Forbidden', words: policy });
  const quota = 'pods "a" is forbidden: exceeded quota: all, requested: pods=1, used: pods=2, limited: pods=2';
  assert.equal(of(403, 'Forbidden', quota, 'pods'), { reason: 'QuotaExceeded', words: quota });
});

test('the rejection of a Secret names the rejecting party, and quotes no text that may be its content', () => {
  const told = (message: string, reason = 'Forbidden') => of(403, reason, message, 'secrets')?.words;
  assert.is(
    told('Secret "project-keys" is invalid: data: Forbidden: field is immutable when `immutable` is set'),
    'Secret "project-keys" is invalid: field is immutable when `immutable` is set',
  );
  assert.is(
    told('secrets "project-keys" is forbidden: exceeded quota: all, requested: secrets=1, used: secrets=9'),
    'secrets "project-keys" is forbidden: exceeded quota: all',
  );
  assert.is(
    told('admission webhook "look.example.com" denied the request: data.password is hunter2'),
    'admission webhook "look.example.com" denied the request',
  );
  assert.is(
    told(
      "secrets \"project-keys\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: hunter2",
    ),
    "secrets \"project-keys\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
  );
  assert.is(
    told('secrets "s" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "secrets" in API group ""'),
    'secrets "s" is forbidden: User "system:serviceaccount:a:b" cannot patch resource "secrets"',
  );
  assert.is(told('hunter2 is no good password', 'Invalid'), 'Invalid');
});

test('a webhook’s rejection counts as Forbidden if it has no code, or else has its own reason', () => {
  const denied = 'admission webhook "look.example.com" denied the request: no cost centre';
  assert.equal(of(400, '', denied), { reason: 'Forbidden', words: denied });
  assert.is(of(403, 'data.password is hunter2', 'denied', 'secrets')?.reason, 'Forbidden');
  assert.is(of(403, 'data.password is hunter2', 'denied', 'secrets')?.words, 'Forbidden');
  assert.is(of(400, 'BadRequest', 'the body could not be read'), undefined);
});

test('an error is no rejection if the next attempt may succeed', () => {
  assert.is(of(409, 'Conflict', 'the object has been modified'), undefined);
  assert.is(of(500, 'InternalError', 'etcdserver: request timed out'), undefined);
  assert.is(of(403, 'Forbidden', 'it is forbidden: namespace p-shop is being terminated'), undefined);
  assert.is(refusalOf(new Error('socket hang up')), undefined);
});

test.run();
