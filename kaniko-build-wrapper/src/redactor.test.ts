import { longestTurnDuring } from '@slipway/program/decoders.testing.js';
import { processorTimeOf, TURN_MS } from '@slipway/testing';
import fc from 'fast-check';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BuildLog } from './build-log.js';
import { Redactor } from './redactor.js';

const shown = (secrets: string[], pieces: string[]) => {
  const redactor = new Redactor(secrets);
  return pieces.map((piece) => redactor.push(piece)).join('') + redactor.end();
};

test('a secret is redacted wherever the text is split', () => {
  const text = 'before s3cret-value after s3cret-value, s3cret-valu';
  for (let first = 0; first <= text.length; first++)
    for (let second = first; second <= text.length; second++) {
      const pieces = [text.slice(0, first), text.slice(first, second), text.slice(second)];
      assert.is(shown(['s3cret-value'], pieces), 'before [redacted] after [redacted], s3cret-valu');
    }
});

test('overlapping secrets are redacted as a whole wherever the text is split', () => {
  const secrets = ['abcd', 'abcdefgh', 'cdxxxx', 'gh12'];
  for (const text of ['abcd', 'abcdefgh', 'zabcd cdxxxx', 'abcdefgh12'])
    for (let cut = 0; cut <= text.length; cut++) {
      const result = shown(secrets, [text.slice(0, cut), text.slice(cut)]);
      assert.not.match(result, /ab|cd|ef/, `${text} cut at ${cut}: ${result}`);
    }
});

test('a secret is redacted as a line, in a URL, in JSON and in base64', () => {
  const secret = 'pa"ss/wörd\nof two lines';
  const forms = [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret).slice(1, -1),
    Buffer.from(secret).toString('base64'),
  ];
  for (const form of forms) assert.is(shown([secret], [form]), '[redacted]', form);
  assert.is(shown([secret], ['see: of two lines.']), 'see: [redacted].');
});

test('a value of any length is redacted, and no error contains it', () => {
  const value = `${'a'.repeat(100_000)}b${'a'.repeat(100_000)}`;
  assert.is(shown([value], [`x ${value} y`]), 'x [redacted] y');
  const pieces = `x ${value} y`.match(/.{1,30000}/g) as string[];
  assert.is(shown([value], pieces), 'x [redacted] y');
  assert.is(shown([value], ['a'.repeat(150_000), 'c']), `${'a'.repeat(150_000)}c`);
});

test('overlapping values, and values whose end begins another value, are redacted as a whole', () => {
  assert.is(shown(['abcdef', 'efgh'], ['xabcdefghx']), 'x[redacted]x');
  assert.is(shown(['abcd', 'abcdefgh'], ['abcd', 'efgh abcd', 'ef']), '[redacted] [redacted]ef');
  assert.is(shown(['aabaac'], ['aabaabaac']), 'aab[redacted]');
  assert.is(shown(['abab'], ['abababab']), '[redacted][redacted]');
});

/** Replaces each character of each secret by searching at every position. Adjacent replacements count as one. */
function naivelyShown(secrets: readonly string[], text: string): string {
  const hidden = new Set<number>();
  for (const secret of secrets)
    for (let at = text.indexOf(secret); at !== -1; at = text.indexOf(secret, at + 1))
      for (let each = 0; each < secret.length; each += 1) hidden.add(at + each);
  const characters = text.split('').map((character, at) => (hidden.has(at) ? '[redacted]' : character));
  return characters.join('').replaceAll(/(?:\[redacted\])+/g, '[redacted]');
}

test('secrets of few letters are redacted as a naive search would, wherever the text is split', () => {
  const words = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 4, maxLength: 12 });
  const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 20 }), { maxLength: 12 });
  fc.assert(
    fc.property(fc.array(words, { maxLength: 6 }), pieces, (secrets, parts) => {
      const forms = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString('base64')]);
      const found = shown(secrets, parts).replaceAll(/(?:\[redacted\])+/g, '[redacted]');
      assert.is(found, naivelyShown(forms, parts.join('')));
    }),
    { numRuns: 3_000 },
  );
});

const MANY_LINES = Array.from({ length: 990 }, (_, each) => `${'a'.repeat(21)}${each}`).join('\n');
const HALF_HELD = `${'aaaaaaa\n'.repeat(3_900)}b`;
const ALL_SHARED = Array.from({ length: 200 }, (_, each) => `${'a'.repeat(320)}${each}`);
const HOSTILE_PIECES: [string, string[], string, string][] = [
  ['many lines with the same beginning', [MANY_LINES], '', 'a'.repeat(65_536)],
  ['200 values with the same beginning', ALL_SHARED, '', `${'a'.repeat(319)}b`.repeat(205)],
  ['a value of which half is buffered', [HALF_HELD], HALF_HELD.slice(0, -1), 'aaaaaaa\n'.repeat(8_192)],
  ['a value that breaks off', ['a'.repeat(32_768)], 'a'.repeat(32_767), `b${'a'.repeat(65_535)}`],
  ['a value that is all of the text', ['aaaa'], '', 'a'.repeat(65_536)],
];
for (const [name, secrets, before, piece] of HOSTILE_PIECES) {
  test(`a piece of 64 KiB takes at most ${TURN_MS} ms of processor time with ${name}`, async () => {
    const redactor = new Redactor(secrets);
    await redactor.prepare();
    redactor.push(before);
    const taken = processorTimeOf(() => redactor.push(piece));
    assert.ok(taken <= TURN_MS, `it took ${taken} ms`);
  });
}

test('a small piece takes as little time if most of a value is in the buffer', async () => {
  const redactor = new Redactor([HALF_HELD]);
  await redactor.prepare();
  redactor.push(HALF_HELD.slice(0, -1));
  const taken = processorTimeOf(() => {
    for (let each = 0; each < 1_000; each += 1) redactor.push('aaaaaaa\n');
  });
  assert.ok(taken <= TURN_MS, `1,000 pieces took ${taken} ms`);
});

const CONTROL = '\u0001\u0002';
const HOSTILE_VALUES: [string, string[]][] = [
  ['control characters', [CONTROL.repeat(16_384), `b${CONTROL.repeat(16_383)}`]],
  ['letters that repeat', ['a'.repeat(32_768), `${'a'.repeat(32_767)}b`]],
  ['short lines', [MANY_LINES, ...Array.from({ length: 40 }, (_, each) => `${each}xy\n${each}`.repeat(150))]],
  ['200 values', Array.from({ length: 200 }, (_, each) => `${each}\u0001"ü`.repeat(60))],
];
for (const [name, values] of HOSTILE_VALUES) {
  test(`preparing for 64 KiB of ${name} takes at most ${TURN_MS} ms of processor time in a turn`, async () => {
    const making = processorTimeOf(() => new Redactor(values));
    const longest = await longestTurnDuring(() => new Redactor(values).prepare());
    assert.ok(making <= TURN_MS && longest <= TURN_MS, `making took ${making} ms, the longest turn ${longest} ms`);
  });
}

test('values of fewer than four characters are not redacted', () => {
  assert.is(shown(['abc', ''], ['abc abc']), 'abc abc');
});

test('a log never ends within a character, and is cut at its limit', () => {
  let text = '';
  const log = new BuildLog(['hidden-word'], 40, (_, part) => {
    text += part;
  });
  const bytes = Buffer.from('größe hidden-word\n');
  for (const byte of bytes) log.output(Buffer.from([byte]));
  assert.is(text, 'größe [redacted]\n');
  for (let each = 0; each < 1000; each++) log.output(Buffer.from('öööööööööööö'));
  log.line('a line of ours');
  assert.match(text, /^größe \[redacted\]\nö{10}\nThe log ends here: it reached its limit of 40 bytes.\n$/);
});

test.run();
