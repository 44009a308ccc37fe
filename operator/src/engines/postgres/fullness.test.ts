import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Fullness, fullnessAfter, type Look } from './fullness.js';

const test = suite('the fullness of a database');
const MB = 1e6;
const QUOTA = 500 * MB;
const MINUTE = 60_000;

/** Looks at a database in turn. Each look has a size in megabytes and a time in milliseconds. */
function after(start: Fullness | undefined, ...looks: [size: number, now: number, more?: Partial<Look>][]) {
  return looks.reduce<Fullness | undefined>((before, [size, now, more]) => {
    const look = { size: size * MB, quota: QUOTA, share: (size * MB) / QUOTA, isRewriting: false, now, ...more };
    return fullnessAfter(before, look);
  }, start);
}

test('a database is full beyond its quota, and writable below 95 % of it', () => {
  assert.is(after(undefined, [500, 0]), undefined);
  assert.equal(after(undefined, [501, 0]), { base: 501 * MB, level: 0, shuts: 0, shutUntil: 0 });
  assert.is(after(undefined, [501, 0], [480, 1])?.level, 0);
  assert.is(after(undefined, [501, 0], [474, 1]), undefined);
});

test('a full database that grows by more than 16 MB is closed for a minute, then longer, up to an hour', () => {
  const shut = after(undefined, [510, 0], [526, 1], [527, 2]);
  assert.equal(shut, { base: 527 * MB, level: 1, shuts: 1, shutUntil: 2 + MINUTE });
  let known = shut as Fullness;
  const minutes = [];
  for (let size = 600; size < 1400; size += 100) {
    known = after(known, [size, known.shutUntil], [size + 20, known.shutUntil]) as Fullness;
    minutes.push(Math.floor(known.shutUntil / MINUTE));
  }
  assert.equal(minutes, [3, 7, 15, 31, 63, 123, 183, 243]);
});

test('a closed database that still grows loses the login of /query, and then the data plane’s logins', () => {
  const shut = after(undefined, [510, 0], [530, 1]);
  assert.is(after(shut, [533, 2])?.level, 1);
  assert.is(after(shut, [535, 2])?.level, 2);
  assert.is(after(shut, [535, 2], [540, 3])?.level, 3);
  assert.is(after(shut, [535, 2], [540, 3], [545, 4])?.level, 3);
  assert.is(after(shut, [535, 2], [540, 1 + MINUTE])?.level, 0, 'all are open again at the end of the first');
});

test('growth counts from the size at which the database opened again, so a slow delete is not ended', () => {
  const opened = after(undefined, [510, 0], [560, 1], [560, 1 + MINUTE]);
  assert.is(opened?.level, 0);
  assert.is(after(opened, [560, 2 * MINUTE], [561, 3 * MINUTE], [570, 4 * MINUTE])?.level, 0);
});

test('a rewrite of a table may use as much as the quota, and other sessions are closed for it', () => {
  const rewriting = { isRewriting: true };
  const shut = after(undefined, [510, 0], [600, 1, rewriting], [900, 2, rewriting], [1016, 3, rewriting]);
  assert.is(shut?.level, 1);
  assert.is(after(shut, [1017, 4, rewriting])?.level, 2);
  assert.is(after(shut, [300, 4]), undefined);
});

test.run();
