import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes } from '../testing.js';
import { LeaderElection } from './leader-election.js';
import { hasEnded, processIdentity } from './process-identity.js';

const LEASES = '/apis/coordination.k8s.io/v1/namespaces/default/leases';

const test = suite<{ kubernetes: TestKubernetes }>('leader election');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
});
test.after(async ({ kubernetes }) => {
  await kubernetes.close();
});

function candidate({ client }: TestKubernetes, name: string, identity: string) {
  const lost = Promise.withResolvers<void>();
  const election = new LeaderElection({
    client,
    namespace: 'default',
    name,
    identity,
    onLost: () => lost.resolve(),
    log: silentLog,
  });
  return { election, lost: lost.promise };
}

test('one of several candidates leads, and another candidate leads when the first releases the Lease', async ({
  kubernetes,
}) => {
  const name = `leading-${process.pid}`;
  const leaders: string[] = [];
  const candidates = ['one', 'two', 'three'].map((identity) => ({
    identity,
    ...candidate(kubernetes, name, identity),
  }));
  const acquired = candidates.map(({ identity, election }) =>
    election.acquire().then((leads) => {
      if (leads) leaders.push(identity);
    }),
  );
  await until(() => leaders.length > 0, 'a leader');
  assert.is(leaders.length, 1);
  const first = candidates.find(({ identity }) => identity === leaders[0]);
  await first?.election.close();
  await until(() => leaders.length > 1, 'the next leader');
  assert.is(leaders.length, 2);
  await Promise.all(candidates.map(({ election }) => election.close()));
  await Promise.all(acquired);
  await deleteAndWait(kubernetes.client, `${LEASES}/${name}`);
});

test('a leader is notified when another operator has taken the Lease', async ({ kubernetes }) => {
  const name = `lost-${process.pid}`;
  const { election, lost } = candidate(kubernetes, name, 'one');
  assert.ok(await election.acquire());
  await kubernetes.client.patch(`${LEASES}/${name}`, { spec: { holderIdentity: 'another' } });
  await lost;
  await election.close();
  const lease = await kubernetes.client.get<{ spec: { holderIdentity: string } }>(`${LEASES}/${name}`);
  assert.is(lease.spec.holderIdentity, 'another', 'a lost lease is not released');
  await deleteAndWait(kubernetes.client, `${LEASES}/${name}`);
});

test('a candidate on the same machine takes over at once when the leader’s process was killed', async ({
  kubernetes,
}) => {
  const name = `killed-${process.pid}`;
  const code = `
    import(${JSON.stringify(new URL('./process-identity.js', import.meta.url).href)})
      .then(({ processIdentity }) => { console.log(processIdentity()); setInterval(() => {}, 1000); });`;
  const child = spawn(process.execPath, ['-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(child.stdout, 'data');
  const identity = String(line).trim();
  assert.not(hasEnded(identity));
  assert.not(hasEnded(processIdentity()));
  assert.not(hasEnded(identity.replace(/^[^_]+/, 'another-host')), 'processes of another host are unknown');
  const dead = candidate(kubernetes, name, identity);
  assert.ok(await dead.election.acquire());
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.ok(hasEnded(identity));
  const { election } = candidate(kubernetes, name, processIdentity());
  assert.ok(await election.acquire());
  await Promise.all([election.close(), dead.lost.then(() => dead.election.close())]);
  await deleteAndWait(kubernetes.client, `${LEASES}/${name}`);
});

test.run();
