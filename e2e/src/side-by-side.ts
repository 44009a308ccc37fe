/**
 * Runs the bodies of tests a few at a time, because they mostly wait. uvu reports the tests in order, each with its own
 * failure. In: a suite. Out: a function that registers a test.
 */
import type { Test } from 'uvu';

type Body = () => Promise<void>;

interface Registered {
  body: Body;
  end(running: Promise<void>): void;
}

/** The bodies begin with the first test, after the hooks of the suite. */
export function sideBySide(test: Test, atOnce: number): (name: string, body: Body) => void {
  const waiting: Registered[] = [];
  let hasBegun = false;
  const runNext = async (): Promise<void> => {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      const running = next.body();
      next.end(running);
      await running.catch(() => undefined);
    }
  };
  return (name, body) => {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    // The body's test reports the failure when its turn comes.
    ended.catch(() => undefined);
    waiting.push({ body, end });
    test(name, async () => {
      if (!hasBegun) for (let lane = 0; lane < atOnce; lane++) void runNext();
      hasBegun = true;
      await ended;
    });
  };
}
