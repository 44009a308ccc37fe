/** Compares docs/conditions.md with the operator: each condition and each reason has a row. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, root, sourcesIn } from './sources.js';

const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const page = read('docs/conditions.md');
const sources = sourcesIn('operator').filter((file) => !FOR_TESTS.test(file));

const text = sources.map(read).join('\n');
/** Returns the matches of `pattern` in the operator's sources. */
const captured = (pattern: RegExp) => [...text.matchAll(pattern)].map(([, name]) => name as string);

/** Returns the `names` that are missing in the page's tables. */
function missing(all: string[], shown: (name: string) => string): string[] {
  const names = new Set(all);
  assert.ok(names.size > 4);
  const rows = page.split('\n').filter((line) => line.startsWith('|'));
  return [...names].filter((name) => !rows.some((row) => row.includes(shown(name)))).sort();
}

test('docs/conditions.md has each reason that a step or a controller returns', () => {
  assert.equal(
    missing(captured(/\breason: '([A-Z][A-Za-z]+)'/g), (name) =>
      isHarm(name) ? `\`SessionEnded${name}\`` : `\`${name}\``,
    ),
    [],
  );
});

/** Returns the value of a constant of the operator. */
const constantOf = (constant: string): string => {
  const [value] = captured(new RegExp(`const ${constant} = '(\\w+)'`, 'g'));
  assert.ok(value, `${constant} is not a string of the operator`);
  return value;
};

test('docs/conditions.md has each condition that a step sets, or a type lists', () => {
  const named = captured(/\b(?:condition|type): '([A-Z]\w+)'(?=,[^}]*\b(?:outcome|run|status)\b)/g);
  const constants = captured(/\bcondition: ([A-Z][A-Z_]+)\b(?!\[)/g).map(constantOf);
  const listed = captured(/\bconditions: \[([^\]]+)\]/g).flatMap((list) => list.match(/(?<=')\w+/g) ?? []);
  assert.ok(named.length > 5 && constants.length > 3 && listed.length > 5);
  // A table contains the names of the parts that run in a project's own pods.
  const parts = captured(/\w: '(\w+Ready)'/g);
  assert.equal(
    missing([...named, ...constants, ...listed, ...parts], (name) => `\`${name}\``),
    [],
  );
});

/** Reasons for ending sessions, which Events carry with a prefix. */
const isHarm = (name: string) => harms.includes(name);
const harms = [...read('operator/src/engines/postgres/harm.ts').matchAll(/\| '([A-Z][A-Za-z]+)'/g)]
  .map(([, name]) => name as string)
  .concat('WalRate');

test.run();
