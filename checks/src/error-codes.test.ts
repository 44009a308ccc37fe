/** Compares docs/errors.md with the code: each code in a response has a row, and no other code has one. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, root, sourcesIn } from './sources.js';

const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
const sections = new Map(
  read('docs/errors.md')
    .split(/^## /m)
    .map((text) => [text.split('\n')[0] ?? '', text]),
);

/** Returns the codes in the first column of a section's table. */
function documented(section: string): string[] {
  const rows = sections.get(section)?.match(/^\| `.*?(?= \|)/gm) ?? [];
  return rows.flatMap((row) => [...row.matchAll(/`([^`]+)`/g)].map(([, code]) => code as string)).sort();
}

/** Returns the matches of the patterns in the sources below a folder of the data plane. */
function used(folder: string, ...patterns: RegExp[]): string[] {
  const sources = sourcesIn('dataplane').filter((file) => file.includes(folder) && !FOR_TESTS.test(file));
  const texts = sources.map(read);
  const codes = patterns.flatMap((pattern) =>
    texts.flatMap((text) => [...text.matchAll(pattern)].map(([, code]) => code as string)),
  );
  return [...new Set(codes)].sort();
}

test('docs/errors.md has each error code of the management API, with its status and title', () => {
  const [, kinds = ''] = /const KINDS = \{([\s\S]*?)\n\}/.exec(read('api/src/http/problem.ts')) ?? [];
  const rows = [...kinds.matchAll(/(\w+): \[(\d+), '([^']+)'\]/g)].map(([, ...parts]) => parts);
  const shown = [...(sections.get('Management API') ?? '').matchAll(/^\| `(\w+)` \| (\d+) \| ([^|]+) \|/gm)];
  assert.ok(rows.length > 30);
  assert.equal(
    shown.map(([, ...parts]) => parts),
    rows,
  );
});

test('docs/errors.md has each error code of REST', () => {
  assert.equal(documented('REST of a project'), used('', /'(PGRST\d{3})'/g));
});

test('docs/errors.md has each error code of auth', () => {
  const values = /(?:AuthError\(\s*(?:\d+|\w+),\s*|(?:badRequest|forbidden|notFound|unprocessable)\(\s*)'([a-z_]+)'/g;
  const named = /'(over_[a-z_]+|session_(?:expired|not_found)|refresh_token_[a-z_]+)'/g;
  assert.equal(documented('Auth of a project'), used('services/auth/', values, named));
});

test('docs/errors.md has each error code of storage', () => {
  assert.equal(documented('Storage of a project'), used('services/storage/', /StorageError\(\s*\d+,\s*'([A-Za-z]+)'/g));
});

test('docs/errors.md has each error code of responses that replace a function’s response', () => {
  const usedCodes = used('services/functions/', /\bcode: '([A-Z_]+)'/g, /Unavailable\(\s*'([A-Z_]+)'/g);
  assert.ok(usedCodes.length > 3);
  const shown: string[] = sections.get('Edge functions')?.match(/`[A-Z_]+`/g) ?? [];
  assert.equal(
    usedCodes.filter((code) => !shown.includes(`\`${code}\``)),
    [],
  );
});

test.run();
