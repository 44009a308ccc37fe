/**
 * Attacks all JSON decoders with hostile text at their limits: the corpus, and shapes from fast-check. Also checks that
 * random texts of JSON's characters are accepted and rejected as by JSON.parse.
 */
import { checkCorpus, checkMadeUp, SEED } from '@slipway/program/decoders.testing.js';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseBody } from '../services/rest/request/body.js';
import { OF_MANY_TURNS, OF_ONE_TURN } from '../testing/decoders.js';
import { atOnce } from '../testing/steps.js';

for (const [name, decoder] of Object.entries(OF_ONE_TURN)) {
  test(`hostile input of ${name} takes at most one turn of the event loop`, () => {
    checkCorpus(name, decoder, true);
    checkMadeUp(name, decoder, 50);
  });
}

for (const [name, decoder] of Object.entries(OF_MANY_TURNS)) {
  test(`hostile input of ${name} takes at most one turn of the event loop`, () => {
    checkCorpus(name, decoder, true);
    checkMadeUp(name, decoder, 20);
  });
}

const TOKENS = [...'{}[],:1 "\\', '"a"', '"b"', '"\\u0061"', '-0.5e3', 'true', 'null'];

test('random texts of JSON’s characters are accepted if JSON.parse accepts them, with the same names', () => {
  const texts = fc.array(fc.constantFrom(...TOKENS), { minLength: 1, maxLength: 12 }).map((all) => all.join(''));
  fc.assert(
    fc.property(texts, (text) => {
      const names = outcome(() => atOnce(parseBody(Buffer.from(text), undefined, true)).keys);
      assert.equal(
        names,
        outcome(() => namesOf(JSON.parse(text))),
      );
    }),
    { seed: SEED, numRuns: 50_000 },
  );
});

function namesOf(value: unknown): string[] {
  const first: unknown = Array.isArray(value) ? value[0] : value;
  return first && typeof first === 'object' && !Array.isArray(first) ? Object.keys(first) : [];
}

function outcome(work: () => string[]): string[] | 'refused' {
  try {
    return work();
  } catch {
    return 'refused';
  }
}

test.run();
