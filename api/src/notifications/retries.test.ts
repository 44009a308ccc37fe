import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { afterFailure, MOST_ATTEMPTS, OFF_AFTER_MS } from './retries.js';

const NOW = new Date('2026-01-05T10:00:00Z');
const channel = { failures: 0, failingSince: null };
const failure = { error: 'the receiver answered 500' };
const seconds = (time: Date | undefined) => time && (time.getTime() - NOW.getTime()) / 1000;
const retry = (attempts: number, random = 0) =>
  seconds(afterFailure({ attempts, createdAt: NOW }, channel, failure, NOW, () => random).nextAt);

test('a delivery is tried again after the delays of Standard Webhooks, and then fails', () => {
  const delays = Array.from({ length: MOST_ATTEMPTS }, (_, attempts) => retry(attempts));
  assert.equal(delays, [5, 300, 1800, 7200, 18_000, 36_000, 36_000, undefined]);
  assert.is(retry(0, 1), 5.5);
});

test('a channel rests for longer after each failure, at most five minutes', () => {
  const rest = (failures: number) =>
    seconds(afterFailure({ attempts: 0, createdAt: NOW }, { ...channel, failures }, failure, NOW).pausedUntil);
  assert.equal([rest(0), rest(1), rest(5), rest(6), rest(1000)], [5, 10, 160, 300, 300]);
});

test('the receiver may postpone the next attempt by an hour', () => {
  const late = { ...failure, retryAfterMs: 86_400_000 };
  const { nextAt, pausedUntil } = afterFailure({ attempts: 0, createdAt: NOW }, channel, late, NOW);
  assert.equal([seconds(nextAt), seconds(pausedUntil)], [3600, 3600]);
});

test('a channel is switched off after five days of failures, or if its receiver is gone', () => {
  const since = (ms: number) => ({ failures: 9, failingSince: new Date(NOW.getTime() - ms) });
  const isOff = (of: typeof channel | ReturnType<typeof since>, isGone = false) =>
    afterFailure({ attempts: 0, createdAt: NOW }, of, { ...failure, isGone }, NOW).isOff;
  assert.equal(
    [isOff(channel), isOff(since(OFF_AFTER_MS - 1)), isOff(since(OFF_AFTER_MS)), isOff(channel, true)],
    [false, false, true, true],
  );
});

test.run();
