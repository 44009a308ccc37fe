/** Addresses that webhooks must not reach. No network is allowed, so that loopback is refused too. */
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { type Receiver, startReceiver } from './receiver.testing.js';

let api: TestApi;
let receiver: Receiver;
let token: string;

test.before(async () => {
  receiver = await startReceiver();
  api = await startTestApi();
  ({ token } = await register(api));
});
test.after(async () => {
  await api?.close();
  await receiver?.close();
});

const hosts = [
  '127.0.0.1',
  'localhost',
  '[::1]',
  '[::ffff:127.0.0.1]',
  '2130706433',
  '0x7f.1',
  '169.254.169.254',
  '10.0.0.1',
];

for (const host of hosts) {
  test(`a webhook does not reach ${host}`, async () => {
    const { id } = (await api.call('POST', '/projects', { token, json: { name: `to-${hosts.indexOf(host)}x` } })).body;
    const { port } = new URL(receiver.url);
    const json = { url: `https://${host}:${port}/`, events: ['deploy.failed'] };
    assert.is((await api.call('POST', `/projects/${id}/webhooks`, { token, json })).status, 201);
    await api.call('POST', `/projects/${id}/notifications/test`, { token });
    const list = async () => (await api.call('GET', `/projects/${id}/webhooks`, { token })).body.items;
    const [{ last_error: error }] = await until(list, ([first]) => first.failing_since !== null);
    assert.match(error, /the address is not public.*SLIPWAY_ALLOWED_NETWORKS/);
    assert.is(receiver.messages.length, 0);
  });
}

test.run();
