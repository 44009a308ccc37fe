/** Attacks JSON decoders that run in one turn of the event loop. decoders.long.test.ts attacks all decoders. */
import { checkCorpus, checkMadeUp } from '@slipway/program/decoders.testing.js';
import { test } from 'uvu';
import { OF_ONE_TURN } from '../testing/decoders.js';

for (const [name, decoder] of Object.entries(OF_ONE_TURN)) {
  test(`hostile input of ${name} takes at most one turn of the event loop`, () => {
    checkCorpus(name, decoder);
    checkMadeUp(name, decoder, 20);
  });
}

test.run();
