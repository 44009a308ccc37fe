/**
 * Outgoing requests that a project's settings may cause on a cluster: real servers on this machine stand for those
 * inside the cluster.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { gzipSync } from 'node:zlib';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { until } from '../testing/until.js';
import { boundedFetch } from './oauth/fetch.js';
import { AddressRefused, anywhere, outboundTo, publicAddresses, publicOnly } from './outbound.js';
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

test('an address is allowed that is one of the internet and that the site does not block', () => {
  const allows = publicAddresses(['9.9.9.0/24', '2620:fe::/48']);
  for (const address of ['8.8.8.8', '1.1.1.1', '2606:4700::1111']) assert.ok(allows(address), address);
  const refused = [
    ...['10.96.0.1', '127.0.0.1', '169.254.169.254', '192.168.1.1', '172.31.0.1', '100.64.0.1', '0.0.0.0', '9.9.9.9'],
    ...['192.0.0.8', '198.18.0.1', '224.0.0.1', '255.255.255.255', 'localhost', ''],
    ...['::1', '::', '::ffff:10.0.0.1', '::ffff:8.8.8.8', '64:ff9b::a00:1', '2002:a00:1::1', 'fd00::1', 'fe80::1'],
    ...['2620:fe::fe', 'ff02::1', '2001:db8::1'],
  ];
  for (const address of refused) assert.not.ok(allows(address), address);
});

test('the keys of an identity provider are read up to a megabyte, packed or not', async () => {
  const large = createServer((_, outgoing) => {
    outgoing.writeHead(200, { 'content-encoding': 'gzip' });
    outgoing.end(gzipSync(Buffer.alloc(20_000_000, ' ')));
  });
  large.listen(0, '127.0.0.1');
  await once(large, 'listening');
  const url = `http://127.0.0.1:${(large.address() as AddressInfo).port}/jwks`;
  const error = await boundedFetch(anywhere)(url).catch((caught) => caught);
  large.close();
  assert.is(error.code, 'unexpected_failure');
});

test('what is blocked is a CIDR, or the error names it', () => {
  assert.throws(() => publicOnly(['10.0.0.0/99']), /blockedAddresses of the site: 10\.0\.0\.0\/99 is no CIDR/);
});

test('no connection is made to an address of the cluster, however it is written and wherever its name leads', async () => {
  const inside = await startInside();
  const outbound = publicOnly([]);
  for (const host of ['127.0.0.1', 'localhost', '2130706433', '0x7f.1', '[::ffff:127.0.0.1]', '0.0.0.0']) {
    const why = await outbound.fetch(`http://${host}:${inside.port}/`).then(
      () => undefined,
      ({ cause }: Error) => cause,
    );
    assert.instance(why, AddressRefused, host);
    const told = await outbound.connect(host.replace(/[[\]]/g, ''), inside.port, 5_000).then(
      () => undefined,
      (error: Error) => error,
    );
    assert.instance(told, AddressRefused, host);
  }
  assert.is(inside.reached(), 0);
  await outbound.close();
  inside.close();
});

test('what is allowed is reached by name and by address, and a name that leads to both leads there alone', async () => {
  const server = createServer((_, response) => response.end('reached'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const outbound = outboundTo((address) => address === '127.0.0.1');
  for (const host of ['127.0.0.1', 'localhost']) {
    assert.is(await (await outbound.fetch(`http://${host}:${port}/`)).text(), 'reached');
    const socket = await outbound.connect(host, port, 5_000);
    assert.is(socket?.remoteAddress, '127.0.0.1');
    socket?.destroy();
  }
  await outbound.close();
  server.closeAllConnections();
  server.close();
});

const over = (name: string, port: number) => ({
  [`GOTRUE_HOOK_${name}_ENABLED`]: 'true',
  [`GOTRUE_HOOK_${name}_URI`]: `http://localhost:${port}/hook`,
  [`GOTRUE_HOOK_${name}_SECRETS`]: `v1,whsec_${Buffer.alloc(32).toString('base64')}`,
});

test('on a cluster hooks, providers and mail servers inside of it are told as such that can not be reached', async () => {
  const inside = await startInside();
  const harness: Harness = await startHarness({ outbound: publicOnly([]) });
  try {
    const app = await harness.project('inside');
    const signup = () =>
      app.ask('POST', '/signup', { body: { email: app.newEmail(), password: 'correct horse battery' } });
    app.configure(over('BEFORE_USER_CREATED', inside.port));
    const hooked = await signup();
    assert.equal([hooked.status, hooked.body.msg ?? hooked.body.message], [500, 'Failed to reach hook']);

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

    app.configure({ GOTRUE_SMTP_HOST: 'localhost', GOTRUE_SMTP_PORT: String(inside.port) });
    const { email } = await app.signedUp();
    await app.ask('POST', '/recover', { body: { email } });
    await until(() => harness.logged.find((line) => line.includes('could not be sent')), 'the log');
    assert.is(inside.reached(), 0);
  } finally {
    await harness.close();
    inside.close();
  }
});

test('a mail goes by the connection that was looked at', async () => {
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
