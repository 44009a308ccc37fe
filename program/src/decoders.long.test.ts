/** Attacks the JSON decoders that all programs use, with many random texts and the whole corpus. */
import { test } from 'uvu';
import { checkCorpus, checkMadeUp, type Decoder, inOneTurn } from './decoders.testing.js';
import { ONE_TURN, parseJson } from './json.js';
import { jsonSteps } from './json-in-turns.js';

const MIB = 1024 * 1024;
/**
 * Limits of a large text. More values are not tested, because V8 grows an object of 500,000 names in one turn of 60 ms,
 * however few names are added at a time.
 */
const LARGE = { bytes: 8 * MIB, depth: 500, values: 200_000 };
const DECODERS: Record<string, Decoder> = {
  'JSON of one turn': { bound: ONE_TURN, decode: (text) => inOneTurn(() => parseJson(text)) },
  'JSON in steps': { bound: LARGE, decode: (text) => jsonSteps(text, LARGE) },
};

for (const [name, decoder] of Object.entries(DECODERS)) {
  test(`hostile JSON takes at most one turn of the event loop: ${name}`, () => {
    checkCorpus(name, decoder, true);
    checkMadeUp(name, decoder, name === 'JSON in steps' ? 20 : 150);
  });
}

test.run();
