/** Attacks the decoder of one turn with hostile JSON: the corpus, and shapes from fast-check. */
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { checkCorpus, checkMadeUp, type Decoder, inOneTurn, SEED } from './decoders.testing.js';
import { hostileText, shapes } from './hostile-json.testing.js';
import { type JsonBound, JsonRefusal, ONE_TURN, parseJson } from './json.js';
import { jsonSteps } from './json-in-turns.js';

const oneTurn: Decoder = { bound: ONE_TURN, decode: (text) => inOneTurn(() => parseJson(text)) };

test('JSON of the corpus takes at most one turn of the event loop', () => {
  checkCorpus('JSON of one turn', oneTurn);
});

test('JSON of a random shape takes at most one turn of the event loop', () => {
  checkMadeUp('JSON of one turn', oneTurn, 40);
});

const inSteps: Decoder = {
  bound: { bytes: 4 * 1024 * 1024, depth: 500, values: 150_000 },
  decode: (text) => jsonSteps(text, inSteps.bound),
};

test('JSON that is decoded in steps takes at most one turn of the event loop for each step', () => {
  checkMadeUp('JSON in steps', inSteps, 5);
});

const DEEP: JsonBound = { ...ONE_TURN, depth: 10_000 };
const SMALL: JsonBound = { bytes: 2_000, depth: 20, values: 100 };

test('hostile text is decoded with the same result as by JSON.parse, or rejected', () => {
  const texts = fc.oneof(
    shapes.map((shape) => hostileText(shape, SMALL).toString()),
    fc.json(),
    fc
      .array(fc.constantFrom(...'{}[],:"\\ -.0e1'.split(''), '"a"', '"\\u0061"', 'true', 'null'))
      .map((all) => all.join('')),
  );
  fc.assert(
    fc.property(texts, (text) => {
      const expected = outcome(() => JSON.parse(text));
      assert.is(
        outcome(() => parseJson(text, DEEP)),
        expected,
      );
      const bounded = outcome(() => parseJson(text, SMALL));
      if (bounded !== 'over the bound') assert.is(bounded, expected);
    }),
    { seed: SEED, numRuns: 3_000 },
  );
});

test('text of several steps is decoded with the same result as by JSON.parse, or rejected', () => {
  const bound: JsonBound = { bytes: 300_000, depth: 100, values: 20_000 };
  const texts = shapes.map((shape) => hostileText(shape, bound));
  fc.assert(
    fc.property(texts, fc.nat(), fc.constantFrom(...'{}[],:" 1\\'), (text, at, character) => {
      const changed = Buffer.from(text);
      changed.write(character, at % text.length);
      for (const each of [text, changed]) {
        const [inSteps, whole] = [outcome(() => atOnce(jsonSteps(each, bound))), outcome(() => parseJson(each, bound))];
        // A text that is invalid in two ways is rejected for the first one that is met.
        if (!isRefused(inSteps) || !isRefused(whole)) assert.is(inSteps, whole);
      }
    }),
    { seed: SEED, numRuns: 60 },
  );
});

const isRefused = (result: string) => result === 'no JSON' || result === 'over the bound';

function atOnce(steps: Generator<void, unknown, void>): unknown {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

/** Names and their order count too: the decoded value is written again. */
function outcome(work: () => unknown): string {
  try {
    return JSON.stringify(work());
  } catch (error) {
    return error instanceof JsonRefusal && error.reason !== 'syntax' ? 'over the bound' : 'no JSON';
  }
}

test.run();
