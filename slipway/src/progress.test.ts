/** Tests the lines that a start shows to a person. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { progressOf, terminalProgress } from './progress.js';

const written = (isTTY: boolean) => {
  const texts: string[] = [];
  const write = (text: string | Uint8Array) => texts.push(String(text)) > 0;
  return { texts, progress: terminalProgress({ isTTY, write }) };
};

test('a step shows its position and progress on a terminal until it ends, and only its result elsewhere', async () => {
  const [terminal, file] = [written(true), written(false)];
  const position = { number: 3, total: 7 };
  for (const { progress } of [terminal, file]) {
    await progress.step('database moved', async (show) => show(progressOf(2 ** 20, 4 * 2 ** 20, 30_000)), position);
  }
  assert.equal(terminal.texts.join('').split('\r\x1b[K'), [
    '… 3 of 7: database moved',
    '… 3 of 7: database moved: 1.0 of 4.0 MB, about 1:30 left',
    '✓ database moved (0.0 s)\n',
  ]);
  assert.equal(file.texts, ['✓ database moved (0.0 s)\n']);
});

test('a step that fails is marked, and its error reaches the caller', async () => {
  const { texts, progress } = written(false);
  const failing = progress.step('health', () => Promise.reject(new Error('no answer')), { number: 6, total: 6 });
  assert.is(await failing.catch((error: Error) => error.message), 'no answer');
  assert.equal(texts, ['✗ health\n']);
});

test('progress has no remaining time before something is done', () => {
  assert.is(progressOf(0, 2 ** 20, 30_000), '0.0 of 1.0 MB');
  assert.is(progressOf(2 ** 20, 2 ** 20, 30_000), '1.0 of 1.0 MB, about 0:00 left');
});

test.run();
