/**
 * Rules of language that a program can check: the first words of doc comments, and 120 columns of comments and docs.
 * Biome wraps code; strings, tables and code blocks may be longer.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../', import.meta.url));
const COLUMNS = 120;
const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { workspaces: string[] };

const filesIn = (folder: string, ending: string) =>
  readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith(ending))
    .map((file) => path.join(folder, file));

/** Returns `file:line` of each line of `text` that is too long. */
const longLines = (file: string, text: string): string[] =>
  text.split('\n').flatMap((line, index) => (line.length > COLUMNS ? [`${file}:${index + 1}`] : []));

const read = (file: string) => readFileSync(path.join(root, file), 'utf8');
/** Keeps the line numbers. */
const emptied = (text: string) => text.replaceAll(/[^\n]/g, '');

const sources = workspaces.flatMap((folder) => filesIn(`${folder}/src`, '.ts'));
assert.ok(sources.length > 100);

/** First words that put off the thing that a comment describes: an editor's tooltip shows the first sentence alone. */
const PUTS_OFF = /^(?:What|Who|Whoever|Whose|Of|That which|So many|As)\b/;

test('every doc comment begins with the thing that it describes', () => {
  const found = sources.flatMap((file) =>
    [...read(file).matchAll(/^[ \t]*\/\*\*[\s*]*(.{1,40})/gm)]
      .filter(([, text = '']) => PUTS_OFF.test(text))
      .map(([, text]) => `${file}: ${text}`),
  );
  assert.equal(found, []);
});

test('every comment fits into 120 columns', () => {
  const commentsOf = (text: string) => text.replaceAll(/^(?!\s*(\/\*\*|\*|\/\/)(\s|$)).*$|^.*biome-ignore.*$/gm, '');
  const long = sources.flatMap((file) => longLines(file, commentsOf(read(file))));
  assert.equal(long, []);
});

test('every paragraph of the docs fits into 120 columns', () => {
  const pages = [...readdirSync(root).filter((file) => file.endsWith('.md')), ...filesIn('docs', '.md')];
  // Generated from the run that they are about.
  const docs = pages.filter((file) => !file.startsWith('docs/compatibility'));
  assert.ok(docs.includes('docs/architecture.md'));
  const proseOf = (text: string) => text.replaceAll(/^ *```[\s\S]*?^ *```/gm, emptied).replaceAll(/^ *\|.*$/gm, '');
  const long = docs.flatMap((file) => longLines(file, proseOf(read(file))));
  assert.equal(long, []);
});

test.run();
