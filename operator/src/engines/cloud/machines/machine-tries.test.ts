/** Tests the limits of attempts to provision a machine, and the message after the last one. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ProviderError } from '../provider-error.js';
import { SshError } from '../ssh/ssh-error.js';
import { finalFailure, isLastTry, TRY_LIMITS, TryClock } from './machine-tries.js';
import { mayReboot } from './record.js';
import { failureOf, isOfMachine, MachineStages, StageProblem } from './stages.js';

const MINUTE = 60_000;
const { signal } = new AbortController();

test('a stage has what is left of its own limit and of the total', () => {
  const clock = new TryClock(TRY_LIMITS);
  assert.is(clock.leftFor('boot'), 3 * MINUTE);
  clock.spend('boot', 2 * MINUTE);
  assert.is(clock.leftFor('boot'), MINUTE);
  clock.spend('boot', 2 * MINUTE);
  assert.is(clock.leftFor('boot'), 0);
  assert.is(clock.leftFor('install'), 3 * MINUTE);
  clock.spend('install', 4 * MINUTE);
  assert.is(clock.leftFor('configure'), 0);
});

test('a machine fails within 7 minutes, which leaves one for its deletion', () => {
  assert.is(TRY_LIMITS.total, 7 * MINUTE);
  for (const limit of Object.values(TRY_LIMITS)) assert.ok(limit <= TRY_LIMITS.total);
});

test('the second machine is the last one', () => {
  assert.equal([0, 1, 2].map(isLastTry), [false, false, true]);
});

test('only problems of a machine count against it', () => {
  assert.ok(isOfMachine(new SshError('unreachable', 'nothing listens')));
  assert.ok(isOfMachine(new SshError('command-failed', 'no space left')));
  assert.ok(isOfMachine(new StageProblem('UnitsDown', 'a unit does not run', true)));
  assert.not(isOfMachine(new SshError('host-key-changed', 'another key')));
  assert.not(isOfMachine(new SshError('unauthorized', 'the key is rejected')));
  assert.not(isOfMachine(new ProviderError('unavailable', 'The provider is busy.')));
  assert.not(isOfMachine(new Error('the software was not packed')));
});

test('a machine is rebooted at most once an hour', () => {
  const now = Date.parse('2026-01-01T12:00:00Z');
  assert.ok(mayReboot({}, now));
  assert.not(mayReboot({ rebootedAt: '2026-01-01T11:00:01Z' }, now));
  assert.ok(mayReboot({ rebootedAt: '2026-01-01T11:00:00Z' }, now));
  assert.not(mayReboot({ rebootedAt: '2026-01-01T12:30:00Z' }, now));
});

test('the failure of the last machine names the stage, the cause and the remedy', () => {
  const failure = finalFailure(failureOf('connect', new SshError('unreachable', 'Nothing listens.')));
  assert.is(failure.reason, 'SshUnreachable');
  assert.is(
    failure.message,
    'connecting to the machine: Nothing listens. 2 machines failed in a row, and both are deleted. ' +
      'Allow connections from the platform to port 22 of the machines, then POST /projects/{id}/reprovision',
  );
});

test('after the last attempt, the failure is the outcome of all stages until they begin anew', async () => {
  const stages = new MachineStages(() => undefined);
  await stages.run('reserve', signal, async () => undefined);
  stages.giveUp({ stage: 'configure', reason: 'SshCommandFailed', message: 'configuring the machine: no' });
  const { outcome, parts } = stages.progressOf(['reserve', 'create', 'boot', 'connect', 'install']);
  assert.is(outcome.state, 'failed');
  assert.equal(
    parts.map(({ condition, outcome: { state, ...of } }) => [condition, state, 'reason' in of && of.reason]),
    [
      ['MachineCreated', 'progressing', 'MachineDeleted'],
      ['MachineBooted', 'progressing', 'MachineDeleted'],
      ['MachineReachable', 'progressing', 'MachineDeleted'],
      ['SoftwareInstalled', 'progressing', 'MachineDeleted'],
      ['MachineConfigured', 'failed', 'SshCommandFailed'],
    ],
  );
  stages.reset();
  assert.is(stages.progressOf(['reserve']).outcome.state, 'progressing');
});

test('an error of an attempt is progress, and an error of the provider in it is a failure', async () => {
  const stages = new MachineStages(() => undefined);
  const look = async (error: Error) => {
    const work = async () => {
      throw error;
    };
    await stages.run('install', signal, work, { isTry: true }).catch(() => undefined);
    return stages.progressOf(['install']).outcome.state;
  };
  assert.is(await look(new SshError('command-failed', 'no space left')), 'progressing');
  assert.is(await look(new SshError('host-key-changed', 'another key')), 'failed');
  assert.is(await look(new ProviderError('unauthorized', 'The provider rejects the token.')), 'failed');
});

test('the time of the operator before a stage is not that of the stage', async () => {
  const stages = new MachineStages(() => undefined);
  const before = () => new Promise<string>((resolve) => setTimeout(resolve, 60, 'packed'));
  const work = async (_: AbortSignal, packed: string) => packed;
  assert.is(await stages.run('install', signal, work, { before, timeoutMs: 20 }), 'packed');
});

test('the failure of a restore names the snapshot and its request', () => {
  const failure = { stage: 'connect', reason: 'SshUnreachable', message: 'no response.' } as const;
  const { message } = finalFailure(failure, 'one');
  assert.match(message, '2 machines from the snapshot one failed in a row, and both are deleted. The snapshot stays.');
  assert.match(message, /, then POST \/projects\/\{id\}\/snapshots\/one\/restore$/);
});

test.run();
