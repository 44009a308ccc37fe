/** Tests the route that sends a test mail. A small server replaces the auth service of the project. */
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { authConfigDigest } from '@slipway/installation/auth-settings.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';

interface Asked {
  url: string | undefined;
  key: string | undefined;
  body: { email: string; settings: string };
}

let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;
let answers: { status: number; body: object }[] = [];
let asked: Asked[] = [];
let projects = 0;

const server = createServer(async (incoming, outgoing) => {
  asked.push({ url: incoming.url, key: String(incoming.headers.apikey), body: await jsonOf(incoming) });
  const { status, body } = answers.shift() ?? { status: 200, body: { sent: true } };
  outgoing.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});

async function jsonOf(incoming: IncomingMessage): Promise<Asked['body']> {
  let text = '';
  for await (const chunk of incoming) text += chunk;
  return JSON.parse(text);
}

test.before(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  api = await startTestApi({ dataplaneUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
  person = await register(api);
});
test.before.each(() => {
  answers = [];
  asked = [];
});
test.after(async () => {
  server.close();
  await api?.close();
});

async function makeProject(spec: object = {}) {
  const ref = `mails-${++projects}`;
  await api.operator.apply(ref, { owner: person.email, type: 'shared', ...spec });
  const { body } = await until(
    () => api.call('GET', `/projects?name=${ref}`, { token: person.token }),
    (answer) => answer.body.length === 1,
  );
  const { id } = body[0] as { id: number };
  const url = `/projects/${id}/config/auth`;
  return {
    ref,
    change: (json: object) => api.call('PATCH', url, { token: person.token, json }),
    send: (json: object, token = person.token) => api.call('POST', `${url}/test-mail`, { token, json }),
  };
}

async function provisionedProject(spec: object = {}) {
  const project = await makeProject(spec);
  await api.operator.provision(project.ref);
  return project;
}

const TO = { to: 'ada@example.com' };

test('a test mail is sent with the settings that the project has now', async () => {
  const { ref, change, send } = await provisionedProject();
  await change({ smtp_host: 'smtp.example.com' });
  const { status, body } = await send(TO);
  assert.equal([status, body], [200, { ok: true, ...TO }]);
  const [{ url, body: sent }] = asked as [Asked];
  assert.is(url, `/p/${ref}/auth/v1/admin/test_mail`);
  assert.equal(sent, { email: TO.to, settings: authConfigDigest({ GOTRUE_SMTP_HOST: 'smtp.example.com' }) });
});

test('the request waits until the auth service has the settings', async () => {
  const { send } = await provisionedProject();
  const outdated = { status: 409, body: { error_code: 'settings_outdated', msg: 'Try again' } };
  answers = [outdated, outdated];
  assert.is((await send(TO)).status, 200);
  assert.is(asked.length, 3);
});

test('the reason of the mail server is shown', async () => {
  const { send } = await provisionedProject();
  const msg = 'smtp.example.com:587: the server refused: 535 bad credentials';
  answers = [{ status: 422, body: { error_code: 'mail_not_sent', msg } }];
  const { status, body } = await send(TO);
  assert.equal([status, body.code, body.detail], [422, 'mail_not_sent', `The mail was not sent. ${msg}.`]);
});

test('a limit of the auth service is a 429, another error a 503, and GoTrue’s own image is named', async () => {
  const { send } = await provisionedProject();
  answers = [
    { status: 429, body: { msg: 'Too many' } },
    { status: 500, body: {} },
    { status: 404, body: {} },
  ];
  const limited = await send(TO);
  assert.equal([limited.status, limited.body.code], [429, 'too_many_requests']);
  assert.is((await send(TO)).status, 503);
  assert.is((await send(TO)).body.code, 'service_not_available');
});

test('projects that have no auth, are not provisioned or are suspended send nothing', async () => {
  for (const [project, status] of [
    [await makeProject(), 409],
    [await makeProject({ type: 'app' }), 400],
    [await provisionedProject({ suspendedByOwner: true }), 409],
  ] as const) {
    assert.is((await project.send(TO)).status, status);
  }
  assert.equal(asked, []);
});

test('an invalid recipient, a stranger and a token without the scope send nothing', async () => {
  const { send } = await provisionedProject();
  for (const json of [{}, { to: 'nobody' }, { to: 'a@example.com\r\nBcc: b@example.com' }, { ...TO, cc: 'x' }]) {
    assert.is((await send(json)).status, 400, JSON.stringify(json));
  }
  assert.is((await send(TO, (await register(api)).token)).status, 404);
  assert.equal(asked, []);
});

test.run();
