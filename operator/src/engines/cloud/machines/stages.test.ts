/** Tests the stages of a machine: their outcomes, times, limits and repairs. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ProviderError } from '../provider-error.js';
import { SshError } from '../ssh/ssh-error.js';
import { MachineStages, StageProblem } from './stages.js';

const { signal } = new AbortController();
const fails = (error: Error) => async () => {
  throw error;
};
const outcomeOf = (stages: MachineStages) => stages.progressOf(['reserve', 'create']).outcome;

test('a stage is in progress until it is ready, and the next one is announced', async () => {
  const stages = new MachineStages(() => undefined);
  assert.match(JSON.stringify(outcomeOf(stages)), '"progressing","message":"choosing a machine"');
  await stages.run('reserve', signal, async () => undefined);
  assert.match(JSON.stringify(outcomeOf(stages)), '"progressing","message":"creating the machine"');
  await stages.run('create', signal, async () => undefined);
  assert.is(outcomeOf(stages).state, 'ready');
});

test('a problem that may pass is no failure before the stage was ready, and one afterwards', async () => {
  const stages = new MachineStages(() => undefined);
  const busy = new ProviderError('unavailable', 'The provider is busy.');
  await stages.run('reserve', signal, fails(busy)).catch(() => undefined);
  assert.equal(outcomeOf(stages), {
    state: 'progressing',
    reason: 'ProviderUnavailable',
    message: 'choosing a machine: The provider is busy. The operation is repeated later.',
    lookAgainMs: 10_000,
  });
  await stages.run('reserve', signal, async () => undefined);
  const gone = new SshError('unreachable', 'nothing listens');
  await stages.run('reserve', signal, fails(gone)).catch(() => undefined);
  assert.match(JSON.stringify(outcomeOf(stages)), '"failed","reason":"SshUnreachable"');
  await stages.run('reserve', signal, async () => undefined);
  assert.is(outcomeOf(stages).state, 'progressing');
});

test('a problem that does not pass by itself is a failure at once, with its remedy', async () => {
  const stages = new MachineStages(() => undefined);
  const refused = new ProviderError('unauthorized', 'The provider rejects the token.');
  await stages.run('reserve', signal, fails(refused)).catch(() => undefined);
  const outcome = outcomeOf(stages);
  assert.is(outcome.state, 'failed');
  assert.match(JSON.stringify(outcome), 'must create an API token with read and write access');
});

test('an abort is no outcome of a stage', async () => {
  const stages = new MachineStages(() => undefined);
  const stop = new AbortController();
  const work = stages.run('reserve', stop.signal, async (ends) => {
    stop.abort(new Error('the operator ends'));
    ends.throwIfAborted();
  });
  const error = await work.catch((reason: Error) => reason);
  assert.is((error as Error).message, 'the operator ends');
  assert.is(outcomeOf(stages).state, 'progressing');
});

test('a look at a stage that was ready changes nothing that is shown', async () => {
  let changes = 0;
  const stages = new MachineStages(() => {
    changes += 1;
  });
  await stages.run('reserve', signal, async () => undefined);
  const before = changes;
  await stages.run('reserve', signal, async () => assert.ok(stages.isReady('reserve')));
  assert.is(changes, before);
});

test('only the stages of a new machine have durations', async () => {
  const stages = new MachineStages(() => undefined);
  await stages.run('reserve', signal, async () => undefined);
  assert.is(stages.durations, '');
  stages.isNew = true;
  assert.match(stages.durations, /^reserve \d+\.\d s$/);
});

test('repairs are reported once, with the configuration', async () => {
  const stages = new MachineStages(() => undefined);
  await stages.run('configure', signal, async () => undefined);
  stages.repaired(['unit slipway-auth, which was stopped']);
  const look = () => stages.progressOf(['configure']).parts[0]?.outcome;
  assert.equal(look(), { state: 'ready', value: undefined, restored: ['unit slipway-auth, which was stopped'] });
  assert.equal(look(), { state: 'ready', value: undefined });
});

test('a stage of another machine begins anew', async () => {
  const stages = new MachineStages(() => undefined);
  await stages.run('reserve', signal, fails(new StageProblem('NoSuchMachine', 'none', false))).catch(() => undefined);
  stages.reset();
  assert.equal(stages.progressOf(['reserve']).parts, []);
});

test('maintenance is shown in place of the stages, and its problem beside them', async () => {
  const stages = new MachineStages(() => undefined);
  await stages.run('reserve', signal, async () => undefined);
  const look = () => {
    const { outcome, parts } = stages.progressOf(['reserve']);
    return [outcome.state, parts.find(({ condition }) => condition === 'MachineMaintained')?.outcome.state];
  };
  stages.maintained();
  assert.equal(look(), ['ready', undefined]);
  stages.maintain('making the snapshot one; the machine is off');
  assert.equal(look(), ['progressing', 'progressing']);
  stages.maintained({ doing: 'changing the size', error: new ProviderError('unavailable', 'It does not respond.') });
  assert.equal(look(), ['ready', 'failed']);
  assert.equal(stages.progressOf(['configure']).parts, [], 'the condition is set once');
  const { outcome } = stages.progressOf(['reserve', 'create']);
  assert.is(outcome.state === 'progressing' && outcome.message, 'creating the machine');
  stages.maintained();
  assert.equal(look(), ['ready', 'ready']);
});

test('the progress of a restore names the snapshot', () => {
  const stages = new MachineStages(() => undefined);
  stages.restoring = 'one';
  assert.equal(stages.progressOf(['boot']).outcome, {
    state: 'progressing',
    reason: 'Maintenance',
    message: 'restoring the snapshot one: waiting for the machine to boot',
    lookAgainMs: 10_000,
  });
});

test.run();
