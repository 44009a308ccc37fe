/**
 * Tests outgoing requests that a project's settings can cause on a cluster. Local servers stand for servers inside the
 * cluster.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { tenantReach } from '@slipway/installation';
import { addressesOf } from '@slipway/program';
import { outboundTo } from '@slipway/program/outbound.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { boundedFetch } from './oauth/fetch.js';
import { type Harness, startHarness } from './testing/harness.js';

async function startInside() {
  let reached = 0;
  const server = createTcpServer((socket) => {
    reached += 1;
    socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { port: (server.address() as AddressInfo).port, reached: () => reached, close: () => server.close() };
}

test('the keys of an identity provider are read up to a megabyte, compressed or not', async () => {
  const large = createServer((_, outgoing) => {
    outgoing.writeHead(200, { 'content-encoding': 'gzip' });
    outgoing.end(gzipSync(Buffer.alloc(20_000_000, ' ')));
  });
  large.listen(0, '127.0.0.1');
  await once(large, 'listening');
  const url = `http://127.0.0.1:${(large.address() as AddressInfo).port}/jwks`;
  const error = await boundedFetch(outboundTo(() => true))(url).catch((caught) => caught);
  large.close();
  assert.is(error.code, 'unexpected_failure');
});

const over = (name: string, port: number) => ({
  [`GOTRUE_HOOK_${name}_ENABLED`]: 'true',
  [`GOTRUE_HOOK_${name}_URI`]: `http://localhost:${port}/hook`,
  [`GOTRUE_HOOK_${name}_SECRETS`]: `v1,whsec_${Buffer.alloc(32).toString('base64')}`,
});

const REASON = tenantReach({ installation: { publicUrl: 'http://localhost:4000' } }).reason;

test('hooks, providers and mail servers inside the cluster are reported as unreachable', async () => {
  const inside = await startInside();
  const harness: Harness = await startHarness({ outbound: outboundTo(addressesOf({}), REASON) });
  const reported = (message: string) => harness.ownerLines.filter((line) => line.message === message);
  try {
    const app = await harness.project('inside');
    const signup = () =>
      app.ask('POST', '/signup', { body: { email: app.newEmail(), password: 'correct horse battery' } });
    app.configure(over('BEFORE_USER_CREATED', inside.port));
    const hooked = await signup();
    assert.equal([hooked.status, hooked.body.msg ?? hooked.body.message], [500, 'Failed to reach hook']);

    const refused = { host: `localhost:${inside.port}`, reason: REASON };
    const factsOf = () => reported('configured address refused').map(({ facts }) => ({ ...facts, request_id: '' }));
    assert.equal(factsOf(), [{ ...refused, request_id: '' }]);
    assert.not.match(JSON.stringify([hooked.body, [...hooked.headers]]), 'SLIPWAY');

    app.configure({
      GOTRUE_EXTERNAL_INTERN_ENABLED: 'true',
      GOTRUE_EXTERNAL_INTERN_CLIENT_ID: 'app',
      GOTRUE_EXTERNAL_INTERN_SECRET: 'secret',
      GOTRUE_EXTERNAL_INTERN_URL: `http://localhost:${inside.port}`,
    });
    const body = { provider: 'intern', id_token: 'e30.e30.e30' };
    const provided = await app.ask('POST', '/token?grant_type=id_token', { body });
    assert.equal(
      [provided.status, provided.body.msg ?? provided.body.message],
      [500, 'Unable to exchange external code'],
    );
    assert.equal(factsOf(), [
      { ...refused, request_id: '' },
      { ...refused, request_id: '' },
    ]);

    app.configure({ GOTRUE_SMTP_HOST: 'localhost', GOTRUE_SMTP_PORT: String(inside.port) });
    const { email } = await app.signedUp();
    await app.ask('POST', '/recover', { body: { email } });
    await until(() => harness.logged.find((line) => line.includes('mail not sent')), 'the log');
    assert.is(reported('mail not sent')[0]?.facts?.reason, REASON);

    app.configure(over('SEND_EMAIL', inside.port));
    await app.ask('POST', '/recover', { body: { email } });
    const later = () => reported('message not sent').filter(({ facts }) => facts?.kind === 'recovery');
    await until(() => later().some(({ facts }) => facts?.reason === REASON), 'the line of the hook that sends mails');
    assert.is(inside.reached(), 0);
  } finally {
    await harness.close();
    inside.close();
  }
});

test('a mail uses the connection whose address was checked', async () => {
  const harness: Harness = await startHarness({ outbound: outboundTo((address) => address === '127.0.0.1') });
  try {
    const app = await harness.project('mailing', { ...harness.mailbox.settings, GOTRUE_SMTP_HOST: 'localhost' });
    const email = app.newEmail();
    await app.ask('POST', '/otp', { body: { email } });
    assert.is((await harness.mailbox.next(email)).to, email);
  } finally {
    await harness.close();
  }
});

test.run();
