/**
 * Tests faults of the provider and of machines on real machines, at the address that SLIPWAY_TEST_CLOUD_URL names. The
 * limits of stages are seconds, so that a case does not take minutes.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineOutcome, EngineProject } from '../../../capabilities/index.js';
import { SshClient } from '../ssh/ssh-client.js';
import {
  type CloudServer,
  cloudUrl,
  type Fault,
  FaultBed,
  isFailed,
  isReady,
  LIMITS,
  stepOf,
} from './faults.testing.js';
import { newSshKeys } from './ssh-keys.js';

if (!cloudUrl) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');
const faults = suite('faults of machines');
const only = process.argv[2];
/** A name as the argument of this file runs the cases that contain it. */
const test = (name: string, work: () => Promise<void>) => {
  const timed = async () => {
    const begun = performance.now();
    await work();
    console.log(`# ${((performance.now() - begun) / 1000).toFixed(1)} s: ${name}`);
  };
  if (cloudUrl && (only === undefined || name.includes(only))) faults(name, timed);
  else faults.skip(name, timed);
};

let bed: FaultBed;
faults.before(async () => {
  if (cloudUrl) bed = await FaultBed.start();
});
faults.after(() => bed?.close());

const CREATE = /^POST \/servers$/;
const LIST = /^GET \/servers$/;
const reasonOf = (outcome: EngineOutcome) => ('reason' in outcome ? outcome.reason : undefined);
const messageOf = (outcome: EngineOutcome) => ('message' in outcome ? outcome.message : '');
const hasReason = (reason: string) => (outcome: EngineOutcome) => reasonOf(outcome) === reason;
const conditionsOf = async (project: EngineProject) => {
  const { parts } = await bed.machines.ensure(project);
  return Object.fromEntries(parts.map(({ condition, outcome }) => [condition, reasonOf(outcome) ?? outcome.state]));
};

/** Ends SSH and then the services, also over a reboot. The engine repairs services while it has a session. */
const SILENCE = `
systemd-run --quiet sh -c '
  sleep 1
  touch /etc/ssh/sshd_not_to_be_run
  systemctl disable --now ssh
  pkill sshd
  sleep 4
  systemctl disable --now slipway-nginx
  rm -f /etc/systemd/system/slipway-nginx.service
'
`;

const CHANGE_HOST_KEY = `
key=$(sed -n 's/^HostKey //p' /etc/ssh/sshd_config.d/00-slipway.conf)
rm "$key" "$key.pub"
ssh-keygen -q -t ed25519 -N '' -f "$key"
(sleep 1; systemctl restart ssh; pkill -f 'sshd: root') > /dev/null 2>&1 &
`;

/** Drives a project with faults until it is ready, and returns the outcomes that it had before. */
async function heals(ref: string, ...list: Fault[]): Promise<{ project: EngineProject; seen: EngineOutcome[] }> {
  const project = await bed.project(ref);
  bed.inject(project, ...list);
  const seen: EngineOutcome[] = [];
  await bed.drive(project, (outcome) => {
    seen.push(outcome);
    return isReady(outcome);
  });
  assert.is((await bed.servers(project)).length, 1);
  assert.is(bed.most(project), 1);
  return { project, seen };
}

/** Makes something of nobody's at the cloud. */
async function created(kind: 'servers' | 'ssh_keys', body: object): Promise<CloudServer> {
  const response = await bed.call('POST', `/${kind}`, body);
  const answer = (await response.json()) as Record<string, CloudServer>;
  const made = answer[kind.slice(0, -1)];
  if (!made) throw new Error(`${kind}: ${JSON.stringify(answer)}`);
  return made;
}

/** Runs an engine whose stages have time for interruptions, each of which costs seconds of the limits. */
async function withLongerStages(work: () => Promise<void>): Promise<void> {
  await bed.machines.close();
  bed.startOperator({ ...LIMITS, connect: 60_000, install: 90_000, configure: 120_000, total: 250_000 });
  try {
    await work();
  } finally {
    await bed.machines.close();
    bed.startOperator();
  }
}

/** Drives the project until the stage of the condition has begun. False: the machine became ready before. */
async function stageReached(project: EngineProject, condition: string): Promise<boolean> {
  for (;;) {
    const { outcome, parts } = await stepOf(bed.machines, project);
    if (outcome.state === 'ready') return false;
    const at = parts.at(-1);
    if (at?.condition === condition && at.outcome.state === 'progressing') return true;
    await sleep(20);
  }
}

const reasonsOf = (seen: EngineOutcome[]) => [...new Set(seen.filter(isFailed).map(reasonOf))];

async function removed(project: EngineProject): Promise<void> {
  await bed.remove(project);
  assert.equal(await bed.left(project), []);
  assert.is(await bed.record(project), undefined);
}

test('two machines that never boot are deleted, and a request to provision begins anew', async () => {
  const project = await bed.project('never');
  bed.inject(project, { match: CREATE, times: 2, boot: 'never' });
  const failed = await bed.drive(project, isFailed, 60_000);
  assert.is(reasonOf(failed), 'MachineTimeout');
  assert.match(messageOf(failed), /^waiting for the machine to boot: .*, then POST \/projects\/\{id\}\/reprovision$/);
  assert.equal(await bed.left(project), []);
  const { view } = await bed.machines.ensure(project);
  assert.is(view, null);
  assert.equal(await conditionsOf(project), {
    MachineCreated: 'MachineDeleted',
    MachineBooted: 'MachineTimeout',
  });
  const before = bed.requests.length;
  await bed.machines.close();
  bed.startOperator();
  const again = await bed.drive(project, isFailed, 10_000);
  assert.equal(again, failed);
  await sleep(5_000);
  assert.is(bed.requests.length, before, 'an idle project makes no requests at the provider');
  await bed.drive({ ...project, machine: { provision: 1 } });
  assert.is(bed.count(CREATE, project), 3);
  assert.is(bed.most(project), 1);
  await removed(project);
});

test('a machine that boots without sshd is replaced by one that becomes ready', async () => {
  const { project, seen } = await heals('nossh', { match: CREATE, times: 1, boot: 'nossh' });
  assert.equal(reasonsOf(seen), []);
  assert.is(bed.count(CREATE, project), 2);
  await removed(project);
});

test('an operator that is killed during the second attempt gets no third machine', async () => {
  const project = await bed.project('killed');
  bed.inject(project, { match: CREATE, times: 5, boot: 'nossh' });
  await bed.drive(project, () => bed.count(CREATE, project) === 2, 60_000);
  await bed.machines.close();
  bed.startOperator();
  await bed.drive(project, isFailed, 60_000);
  assert.is(bed.count(CREATE, project), 2);
  assert.is(bed.most(project), 1);
  assert.equal(await bed.left(project), []);
  await removed(project);
});

test('a machine that stays off after its creation is powered on', async () => {
  const { project } = await heals('off', { match: CREATE, times: 1, boot: 'off' });
  assert.is(bed.count(CREATE, project), 1);
  await removed(project);
});

test('a deletion during the creation leaves nothing', async () => {
  const project = await bed.project('late');
  bed.inject(project, { match: CREATE, times: 1, delayMs: 6_000 });
  await bed.drive(project, () =>
    bed.requests.some(({ name, text }) => name === 'POST /ssh_keys' && text.includes(project.uid)),
  );
  await until(async () => (await bed.record(project))?.ordered === 'yes', 'the machine is ordered');
  await sleep(500);
  await removed(project);
  await sleep(7_000);
  assert.equal(await bed.left(project), []);
  assert.is(bed.count(CREATE, project), 1, 'the creation was executed');
});

test('a deletion that a killed operator had begun is continued by the next one', async () => {
  const project = await bed.project('late-kill');
  bed.inject(project, { match: CREATE, times: 1, delayMs: 6_000 });
  await bed.drive(project, () => true);
  await until(async () => (await bed.record(project))?.ordered === 'yes', 'the machine is ordered');
  await sleep(500);
  await bed.machines.remove(project);
  await sleep(1_500);
  await bed.machines.close();
  bed.startOperator();
  await sleep(6_000);
  await removed(project);
});

test('a machine that served is rebooted once while it is silent, and never replaced', async () => {
  const { project } = await heals('silent');
  const { id } = await bed.server(project);
  await bed.sh(project, SILENCE);
  // A command that was in progress ends with another error first.
  await bed.drive(project, hasReason('SshUnreachable'), 60_000);
  await until(() => bed.actions(id, 'reset') === 1, 'the machine is rebooted', 60_000);
  await bed.drive(project, (outcome) => /was rebooted at/.test(messageOf(outcome)), 60_000);
  assert.is(bed.actions(id, 'reset'), 1);
  assert.equal(
    (await bed.servers(project)).map((server) => server.id),
    [id],
  );
  await removed(project);
});

test('a machine whose SSH alone fails is reported, and not rebooted', async () => {
  const { project } = await heals('no-ssh-later');
  const { id } = await bed.server(project);
  await bed.sh(project, '(sleep 1; systemctl stop ssh; pkill -x sshd) >/dev/null 2>&1 &');
  const silent = await bed.drive(project, (outcome) => /services answer/.test(messageOf(outcome)), 60_000);
  assert.is(reasonOf(silent), 'SshUnreachable');
  assert.is(bed.actions(id, 'reset'), 0);
  await removed(project);
});

test('a machine that served and was switched off is powered on', async () => {
  const { project } = await heals('switched-off');
  const { id } = await bed.server(project);
  await bed.call('POST', `/servers/${id}/actions/poweroff`);
  await until(() => bed.actions(id, 'poweron') === 1, 'the machine is powered on', 60_000);
  await bed.drive(project);
  assert.equal(
    (await bed.servers(project)).map((server) => server.id),
    [id],
  );
  assert.is(bed.actions(id, 'reset'), 0);
  await removed(project);
});

test('a machine with another host key gets nothing, and is neither rebooted nor replaced', async () => {
  const { project } = await heals('other-key');
  const { id } = await bed.server(project);
  await bed.sh(project, CHANGE_HOST_KEY);
  await bed.drive(project, hasReason('SshHostKeyChanged'), 60_000);
  await bed.machines.close();
  bed.startOperator();
  await bed.drive(project, hasReason('SshHostKeyChanged'), 60_000);
  await sleep(5_000);
  assert.is(bed.actions(id, 'reset'), 0);
  assert.equal(
    (await bed.servers(project)).map((server) => server.id),
    [id],
  );
  await removed(project);
});

test('a machine that was deleted at the provider before it served is created again', async () => {
  const project = await bed.project('lost-early');
  await bed.drive(project, () => bed.count(CREATE, project) === 1);
  await until(async () => (await bed.record(project))?.machineId !== undefined, 'the machine is recorded');
  const { id } = await bed.server(project);
  await bed.call('DELETE', `/servers/${id}`);
  await bed.drive(project);
  assert.is(bed.count(CREATE, project), 2);
  assert.is(bed.most(project), 1);
  await removed(project);
});

test('a machine that was deleted at the provider after it served is reported, and not created again', async () => {
  const { project } = await heals('lost-late');
  const { id } = await bed.server(project);
  await bed.call('DELETE', `/servers/${id}`);
  const lost = await bed.drive(project, isFailed, 90_000);
  assert.is(reasonOf(lost), 'MachineLost');
  await bed.drive({ ...project, machine: { provision: 7 } }, isFailed);
  await sleep(4_000);
  assert.is(bed.count(CREATE, project), 1);
  await removed(project);
});

test('a full disk during the installation replaces the machine', async () => {
  const project = await bed.project('full');
  await bed.drive(project, () => bed.count(CREATE, project) === 1);
  await until(async () => (await bed.record(project))?.pinnedFor !== undefined, 'the host key is pinned');
  await bed.sh(project, 'mkdir -p /opt/slipway && mount -t tmpfs -o size=1m none /opt/slipway');
  const seen: EngineOutcome[] = [];
  await bed.drive(project, (outcome) => {
    seen.push(outcome);
    return isReady(outcome);
  });
  assert.ok(seen.some((outcome) => /^Ssh(CommandFailed|UploadFailed|Checksum)$/.test(reasonOf(outcome) ?? '')));
  assert.equal(reasonsOf(seen), []);
  assert.is(bed.count(CREATE, project), 2);
  assert.is(bed.most(project), 1);
  await removed(project);
});

test('a cut of SSH in each stage needs no other machine', async () => {
  await withLongerStages(async () => {
    const project = await bed.project('cuts');
    for (const condition of ['MachineReachable', 'SoftwareInstalled', 'MachineConfigured']) {
      for (const delayMs of [0, 1_000]) {
        const reached = await stageReached(project, condition);
        if (!reached) throw new Error(`the machine was ready before the cut in ${condition}`);
        await sleep(delayMs);
        await bed.cutSsh((await bed.server(project)).public_net.ipv4.ip, 1_500);
      }
    }
    await bed.drive(project);
    await bed.cutSsh((await bed.server(project)).public_net.ipv4.ip, 1_500);
    await bed.drive(project);
    assert.is(bed.count(CREATE, project), 1);
    assert.is(bed.most(project), 1);
    await removed(project);
  });
});

test('a reboot during the installation and one during the configuration need no other machine', async () => {
  await withLongerStages(async () => {
    const project = await bed.project('reboots');
    for (const condition of ['SoftwareInstalled', 'MachineConfigured']) {
      if (!(await stageReached(project, condition))) throw new Error(`the machine was ready before ${condition}`);
      await sleep(500);
      await bed.call('POST', `/servers/${(await bed.server(project)).id}/actions/reset`);
      await sleep(6_000);
    }
    await bed.drive(project);
    assert.is(bed.count(CREATE, project), 1);
    assert.is(bed.most(project), 1);
    await removed(project);
  });
});

test('a second machine at the address of a deleted one gets nothing of the project', async () => {
  const { project } = await heals('reused');
  const { id, public_net } = await bed.server(project);
  await bed.call('DELETE', `/servers/${id}`);
  // The network of the deleted machine needs a moment to end.
  await sleep(5_000);
  const stranger = newSshKeys();
  const key = await created('ssh_keys', { name: `stranger-${bed.installation}`, public_key: stranger.public });
  const other = await created('servers', {
    name: `stranger-${bed.installation}`,
    server_type: 'cpx12',
    image: 'debian-12',
    location: 'fsn1',
    ssh_keys: [key.id],
  });
  try {
    assert.is(other.public_net.ipv4.ip, public_net.ipv4.ip, 'the address is used again');
    const lost = await bed.drive(project, isFailed, 90_000);
    assert.ok(['MachineLost', 'SshHostKeyChanged'].includes(reasonOf(lost) ?? ''), messageOf(lost));
    // Some looks later.
    await sleep(8_000);
    const client = new SshClient({
      host: public_net.ipv4.ip,
      user: 'root',
      privateKey: stranger.private,
      hostKey: undefined,
    });
    try {
      const script =
        'ls -d /etc/slipway /opt/slipway /var/lib/slipway 2>/dev/null; journalctl -u ssh | grep -c Accepted || true';
      const seen = await client.run(['sh', '-c', script], {}, new AbortController().signal);
      assert.is(seen.stdout.trim(), '1', 'no file, and no login but that of this test');
    } finally {
      await client.close();
    }
    assert.is(bed.count(CREATE, project), 1);
    assert.is(bed.actions(other.id, 'reset'), 0);
  } finally {
    await bed.call('DELETE', `/servers/${other.id}`);
    await bed.call('DELETE', `/ssh_keys/${key.id}`);
  }
  await removed(project);
});

test('a lost response to the creation leads to one machine', async () => {
  const { project } = await heals('cut', { match: CREATE, times: 1, cut: true });
  assert.is(bed.count(CREATE, project), 1);
  await removed(project);
});

test('errors of the provider that pass need no person: 423, 429, 500, 503', async () => {
  const { project, seen } = await heals(
    'passing',
    { match: CREATE, times: 1, status: 423, code: 'locked' },
    { match: CREATE, times: 1, status: 429, code: 'rate_limit_exceeded', headers: { 'retry-after': '2' } },
    { match: CREATE, times: 1, status: 500 },
    { match: CREATE, times: 1, status: 503, code: 'service_error' },
  );
  assert.equal(reasonsOf(seen), []);
  assert.is(bed.count(CREATE, project), 1);
  await removed(project);
});

test('a location without capacity leads to the next one', async () => {
  const { project } = await heals('placed', { match: CREATE, times: 1, status: 412, code: 'placement_error' });
  const { location } = await bed.server(project);
  assert.is.not(location.name, 'fsn1');
  await removed(project);
});

test('errors of the provider that need a person are shown, and heal without a request', async () => {
  const project = await bed.project('refused');
  bed.inject(
    project,
    { match: LIST, times: 2, status: 401, code: 'unauthorized' },
    { match: CREATE, times: 2, status: 401, code: 'unauthorized' },
    { match: CREATE, times: 2, status: 422, code: 'invalid_input' },
    { match: CREATE, times: 2, status: 403, code: 'resource_limit_exceeded' },
  );
  for (const reason of ['ProviderUnauthorized', 'ProviderInvalid', 'ProviderLimitReached']) {
    await bed.drive(project, (outcome) => isFailed(outcome) && hasReason(reason)(outcome), 30_000);
    assert.is((await bed.servers(project)).length, 0);
  }
  await bed.drive(project);
  assert.is(bed.most(project), 1);
  await removed(project);
});

test('a project waits while the installation has all its machines, until another project is deleted', async () => {
  await bed.machines.close();
  bed.startOperator(LIMITS, 1);
  const first = await bed.project('first');
  await bed.drive(first);
  // The next engine knows of the first machine from the provider alone.
  await bed.machines.close();
  bed.startOperator(LIMITS, 1);
  const second = await bed.project('second');
  const waiting = await bed.drive(second, isFailed, 30_000);
  assert.is(reasonOf(waiting), 'MachineLimit');
  assert.equal(await bed.left(second), []);
  await removed(first);
  await bed.drive(second);
  await removed(second);
  await bed.machines.close();
  bed.startOperator();
});

test('a taken name is shown, and nothing of the other one is touched', async () => {
  const project = await bed.project('taken');
  const name = `taken-${bed.installation}`;
  const response = await bed.call('POST', '/servers', {
    name,
    server_type: 'cpx12',
    image: 'debian-12',
    location: 'fsn1',
  });
  const { server } = (await response.json()) as { server: { id: number } };
  try {
    const conflict = await bed.drive(project, isFailed, 30_000);
    assert.is(reasonOf(conflict), 'ProviderConflict');
  } finally {
    await bed.call('DELETE', `/servers/${server.id}`);
  }
  await bed.drive(project);
  assert.is(bed.most(project), 1);
  await removed(project);
});

faults.run();
