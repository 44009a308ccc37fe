import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { timeLeft } from './time-left.js';

test('the remaining time of a series is that of an average bench for each that is left', () => {
  assert.is(timeLeft(2, 8, 240_000), 'about 12 min');
  assert.is(timeLeft(7, 8, 70_000), 'less than 1 min');
});

test.run();
