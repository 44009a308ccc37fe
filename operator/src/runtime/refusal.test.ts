import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { KubeError } from './kube.js';
import { refusalOf } from './refusal.js';

const of = (status: number, reason: string, message: string, resource = 'namespaces') =>
  refusalOf(new KubeError(status, reason, message, resource));

test('a refusal is told in the API server’s own words', () => {
  const policy =
    "namespaces \"p-shop\" is forbidden: ValidatingAdmissionPolicy 'names' with binding 'all' denied request: no cost centre";
  assert.equal(of(403, 'Forbidden', policy), { reason: 'Forbidden', words: policy });
  const quota = 'pods "a" is forbidden: exceeded quota: all, requested: pods=1, used: pods=2, limited: pods=2';
  assert.equal(of(403, 'Forbidden', quota, 'pods'), { reason: 'QuotaExceeded', words: quota });
});

test('of a Secret it is told who refused, and nothing that may be its content', () => {
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

test('a webhook that refuses without a code or with a reason of its own is told as any, and its reason is none', () => {
  const denied = 'admission webhook "look.example.com" denied the request: no cost centre';
  assert.equal(of(400, '', denied), { reason: 'Forbidden', words: denied });
  assert.is(of(403, 'data.password is hunter2', 'denied', 'secrets')?.reason, 'Forbidden');
  assert.is(of(403, 'data.password is hunter2', 'denied', 'secrets')?.words, 'Forbidden');
  assert.is(of(400, 'BadRequest', 'the body could not be read'), undefined);
});

test('what may go otherwise at the next try is no refusal', () => {
  assert.is(of(409, 'Conflict', 'the object has been modified'), undefined);
  assert.is(of(500, 'InternalError', 'etcdserver: request timed out'), undefined);
  assert.is(of(403, 'Forbidden', 'it is forbidden: namespace p-shop is being terminated'), undefined);
  assert.is(refusalOf(new Error('socket hang up')), undefined);
});

test.run();
