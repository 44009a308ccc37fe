import { setImmediate } from 'node:timers/promises';
import { type Test, test } from 'uvu';
import * as assert from 'uvu/assert';
import { sideBySide } from './side-by-side.js';

/** Registers a body for each name. The bodies wait for `end`, and `begun` has the names of the running ones. */
function bodies(names: string[]) {
  const registered = new Map<string, () => Promise<void>>();
  const begun: string[] = [];
  const ends = new Map<string, (problem?: Error) => void>();
  const suite = (name: string, body: () => Promise<void>) => void registered.set(name, body);
  const register = sideBySide(suite as unknown as Test, 2);
  for (const name of names) {
    register(name, async () => {
      begun.push(name);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      ends.set(name, (problem) => (problem ? reject(problem) : resolve()));
      await promise;
    });
  }
  return { begun, run: (name: string) => registered.get(name)?.(), end: (name: string) => ends.get(name) };
}

test('two test bodies begin with the first test, and the next begins when one ends', async () => {
  const { begun, run, end } = bodies(['a', 'b', 'c', 'd']);
  assert.equal(begun, []);
  const first = run('a');
  assert.equal(begun, ['a', 'b']);
  end('b')?.();
  await setImmediate();
  assert.equal(begun, ['a', 'b', 'c']);
  end('a')?.();
  await first;
  await run('b');
});

test('a test body that fails fails only its own test, and the next body begins', async () => {
  const { begun, run, end } = bodies(['a', 'b', 'c']);
  const first = run('a');
  end('b')?.(new Error('of b'));
  end('a')?.();
  await first;
  await setImmediate();
  assert.equal(begun, ['a', 'b', 'c']);
  const problem = await run('b')?.catch((error: Error) => error);
  assert.instance(problem, Error);
  assert.is((problem as Error).message, 'of b');
});

test.run();
