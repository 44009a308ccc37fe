/** Compares docs/settings.md with the code: each variable that a program reads, and each in the output of `--help`. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, PRODUCT, root, sourcesIn } from './sources.js';

const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const NAME = /\bSLIPWAY_[A-Z][A-Z_0-9]*[A-Z0-9]\b/g;
/** Matches variables that a program sets for its own child processes, and variables of tests. */
const INTERNAL = /^SLIPWAY_(SEALED|PREPARED_MS|OUTLIVES_TEST|TEST_|E2E_)/;

const page = read('docs/settings.md');
const [ofPeople = '', ofPrograms = ''] = page.split('## Variables of the programs');
const namesIn = (text: string) => new Set(text.match(NAME) ?? []);
/** Returns the names in the first column. */
const rowsOf = (text: string) => namesIn((text.match(/^\| `.*?(?= \|)/gm) ?? []).join('\n'));

const sources = PRODUCT.flatMap(sourcesIn).filter((file) => !FOR_TESTS.test(file) && !file.includes('/fresh/'));

test('docs/settings.md has each variable that the product reads, and no other', () => {
  const used = namesIn(sources.map(read).join('\n'));
  const documented = new Set([...rowsOf(ofPeople), ...rowsOf(ofPrograms)]);
  assert.ok(documented.size > 30);
  assert.equal([...documented].sort(), [...used].filter((name) => !INTERNAL.test(name)).sort());
});

test('docs/settings.md has a row for each variable of npm start that --help lists', () => {
  const [, help = ''] = /SETTINGS_HELP = `([\s\S]*?)`;/.exec(read('slipway/src/settings.ts')) ?? [];
  const offered = new Set([...help.matchAll(/^ {2}(SLIPWAY_\w+)/gm)].map(([, name]) => name as string));
  assert.ok(offered.size > 10);
  assert.equal([...rowsOf(ofPeople)].sort(), [...offered].sort());
});

test.run();
