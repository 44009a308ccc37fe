import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { isTokenAccepted, postgrestError } from './token-accepted.js';

const said = (status: number, error?: string) => isTokenAccepted({ status, error });

test('a token is accepted when the response is a success, a redirect or an error of the request', () => {
  for (const status of [200, 204, 302, 400, 405, 406]) assert.ok(said(status), String(status));
});

test('a token is accepted when the owner has closed or replaced the API’s description', () => {
  assert.ok(said(404, 'PGRST126'));
  assert.ok(said(404, 'PGRST202'));
  assert.ok(said(406, 'PGRST107'));
});

test('a token is accepted when the response is an error of the owner’s SQL, with any status', () => {
  for (const [status, code] of [
    [401, '42501'],
    [403, '42501'],
    [404, '42883'],
    [400, 'P0001'],
    [500, 'P0002'],
    [401, 'PT401'],
    [404, 'PT404'],
    [503, 'PT503'],
    [402, 'plan-ended'],
  ] as const) {
    assert.ok(said(status, code), `${status} ${code}`);
  }
});

test('a token is not accepted when PostgREST or the gateway rejects it', () => {
  for (const code of ['PGRST301', 'PGRST302', 'PGRST303']) assert.not(said(401, code), code);
  assert.not(said(500, 'PGRST300'));
  assert.not(said(401));
  assert.not(said(403));
});

test('a token is not accepted when the project is unknown, or the service or its check is unavailable', () => {
  for (const status of [404, 408, 429, 500, 502, 503, 504]) assert.not(said(status), String(status));
  for (const [status, code] of [
    [503, 'PGRST000'],
    [503, 'PGRST002'],
    [504, 'PGRST003'],
    [503, '53300'],
    [503, '57P01'],
    [500, 'XX000'],
  ] as const) {
    assert.not(said(status, code), `${status} ${code}`);
  }
});

test('postgrestError reads the code from Proxy-Status, also when a proxy has added its own', () => {
  assert.is(postgrestError('PostgREST; error=PGRST126'), 'PGRST126');
  assert.is(postgrestError('cache.example; error=http_protocol_error, PostgREST; error=42501'), '42501');
  assert.is(postgrestError(['PostgREST; error=PT403', 'edge.example']), 'PT403');
  assert.is(postgrestError('edge.example; error=connection_refused'), undefined);
  assert.is(postgrestError(undefined), undefined);
});

test.run();
