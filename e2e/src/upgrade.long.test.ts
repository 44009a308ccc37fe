/** Tests that this release opens a home of an earlier release. Keys, logins, data and tokens must stay. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import { newPlace, type RunningPlatform, startPlatform } from './platform.js';
import { readStateFile, storedFixtures } from './upgrade/fixtures.js';
import { unpackHome } from './upgrade/home-archive.js';
import { checkState, ENVIRONMENT } from './upgrade/written-state.js';

for (const fixture of await storedFixtures('home')) {
  test(`a home of release ${fixture.release} opens with its keys, data, accounts and tokens`, async () => {
    const place = await newPlace();
    await unpackHome(fixture.archive, place.home);
    const platform = await startPlatform(place, ENVIRONMENT);
    try {
      await checkState(platform, await readStateFile(fixture));
    } finally {
      await platform.remove();
    }
  });
}

type Status = { status: string; conditions: { type: string; status: string; message: string }[] };

test('a start names refused hosts in settings of a project, until their network is allowed', async () => {
  const fixture = (await storedFixtures('home')).at(-1);
  assert.ok(fixture);
  const { account, token, projects } = await readStateFile(fixture);
  const place = await newPlace();
  await unpackHome(fixture.archive, place.home);
  let platform: RunningPlatform = await startPlatform(place, ENVIRONMENT);
  const { id, ref } = projects.healthy;
  const secrets = `/api/v1/namespaces/${namespaceOf(ref)}/secrets`;
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: SECRETS.auth.name, labels: { [LABEL_PROJECT]: ref } },
    stringData: { GOTRUE_SMTP_HOST: '127.0.0.1', GOTRUE_SMTP_PORT: '2525' },
  };
  const person = () => Management.withToken(platform, account.email, token);
  const logOf = async () => (await readFile(path.join(place.home, 'logs/operator.log'), 'utf8')).split('\n');
  const conditionIs = (expected: string) =>
    until(async () => {
      const { body } = await person().call<Status>('GET', `/projects/${id}/status`);
      const condition = body.conditions?.find(({ type }) => type === 'AddressesAllowed');
      return body.status === 'healthy' && condition?.status === expected ? condition : undefined;
    }, `AddressesAllowed is ${expected}`);
  try {
    await person().untilHealthy(id);
    // The Secret that owners of the release wrote with kubectl.
    await withClient(platform.kubeconfig, (client) => client.create<object>(secrets, secret));
    await conditionIs('False');
    await platform.stop();
    const before = (await logOf()).length;
    platform = await startPlatform(platform, ENVIRONMENT);
    const line = await until(
      async () => (await logOf()).slice(before - 1).find((each) => each.includes('configured addresses refused')),
      'the line in the log',
    );
    assert.equal([JSON.parse(line).ref, JSON.parse(line).settings], [ref, ['GOTRUE_SMTP_HOST (127.0.0.1:2525)']]);
    assert.match((await conditionIs('False')).message, /GOTRUE_SMTP_HOST .* SLIPWAY_ALLOWED_NETWORKS/);
    await platform.stop();
    platform = await startPlatform(platform, { ...ENVIRONMENT, SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8' });
    await conditionIs('True');
  } finally {
    await platform.remove();
  }
});

test.run();
