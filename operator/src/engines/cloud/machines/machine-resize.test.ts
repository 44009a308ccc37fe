/** Tests to which type a machine is resized, and which errors leave a request pending. Pure. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { MachineChoice } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { isPending, targetOf } from './machine-resize.js';
import { StageProblem } from './stages.js';

const choice = (size: MachineChoice['size'], type: string, diskGb: number, location = 'fsn1'): MachineChoice => ({
  size,
  type,
  location,
  diskGb,
  cores: 2,
  memoryGb: 4,
  eurosPerMonth: 5,
});
const choices = [
  choice('cpx11', 'small', 40),
  choice('cpx21', 'middle', 80),
  choice('cpx31', 'large', 160),
  choice('cpx41', 'other', 240, 'hel1'),
];

test('targetOf returns the type of the plan at the location', () => {
  assert.is(targetOf(choices, 'pro', { location: 'fsn1', diskGb: 40 }).type, 'middle');
});

test('targetOf names a plan that fits when the disk is too large', () => {
  const work = () => targetOf(choices, 'free', { location: 'fsn1', diskGb: 80 });
  assert.throws(work, /disk of 40 GB, and the machine one of 80 GB\. The smallest plan that fits is pro\./);
  assert.throws(() => targetOf(choices, 'free', { location: 'fsn1', diskGb: 320 }), /No plan fits\./);
});

test('targetOf refuses a plan that the location does not offer', () => {
  const work = () => targetOf(choices, 'enterprise', { location: 'fsn1', diskGb: 40 });
  assert.throws(work, /has no machine of the plan enterprise at fsn1/);
});

test('an error that may pass leaves a request pending, and a refusal answers it', () => {
  const isPendingAfter = (kind: ProviderError['kind']) => isPending(new ProviderError(kind, 'p'));
  assert.equal(
    ['unavailable', 'unauthorized'].map((kind) => isPendingAfter(kind as 'unavailable')),
    [true, true],
  );
  assert.equal(
    ['no-capacity', 'invalid', 'conflict'].map((kind) => isPendingAfter(kind as 'invalid')),
    [false, false, false],
  );
  assert.is(isPending(new StageProblem('NoSuchMachine', 'm', false)), false);
  assert.is(isPending(new StageProblem('MachineTimeout', 'm', true)), true);
  assert.is(isPending(new Error('of the Kubernetes API')), true);
});

test.run();
