import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { RestartPauses } from './restart-pauses.js';

test('a container starts again at once after its first end, and later after each further one', () => {
  const pauses = new RestartPauses();
  pauses.reset();
  assert.is(pauses.ended(), 0);
  assert.is(pauses.left, 0);
  const [second, third] = [pauses.ended(), pauses.ended()];
  assert.ok(second > 0 && third > second, `${second}, ${third}`);
  assert.ok(pauses.left > second, `${pauses.left}`);
});

test('a healthy container has no ends', () => {
  const pauses = new RestartPauses();
  pauses.ended();
  pauses.failed();
  pauses.reset();
  assert.is(pauses.left, 0);
  assert.is(pauses.ended(), 0);
});

test('a container that never served waits already before its second start', () => {
  const pauses = new RestartPauses();
  assert.ok(pauses.failed() > 0);
  assert.ok(pauses.left > 0);
});

test.run();
