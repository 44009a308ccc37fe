/**
 * Checks rules of language: the first words of comments and test names, words that hide who acts, and lines of at most
 * 120 columns. Tables and code blocks of the docs may be longer, and so may files of data, which are mostly generated:
 * JSON, YAML and archives.
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
/** Returns the line breaks alone, so that line numbers stay the same. */
const emptied = (text: string) => text.replaceAll(/[^\n]/g, '');

const sources = workspaces.flatMap((folder) => filesIn(`${folder}/src`, '.ts'));
assert.ok(sources.length > 100);

/** Matches first words that defer the subject of a comment or a test name: a tooltip shows the first sentence alone. */
const PUTS_OFF = /^(?:what|who|whoever|whose|of|that which|so many|as)\b/i;
/** Matches words that hide a term: request, report, continue, accept, release, any client. */
const HIDES = /\b(?:whoever|told of|(?:is|are) told|asked|any more|goes on|meanwhile|let in|lets go|held)\b/i;

/** Returns the doc comments and the groups of `//` lines, without marks and quoted code. */
function commentsOf(text: string): string[] {
  const blocks = [...text.matchAll(/^[ \t]*\/\*\*([\s\S]*?)\*\/$/gm)].map(([, inside = '']) => inside);
  const lines = [...text.matchAll(/^[ \t]*\/\/.*(?:\n[ \t]*\/\/.*)*/gm)].map(([group]) => group);
  return [...blocks, ...lines].map((comment) =>
    comment
      .replaceAll(/^[ \t]*(?:\/\/|\*)?/gm, ' ')
      .replaceAll(/`[^`]*`/g, '``')
      .trim(),
  );
}

const testNamesOf = (text: string): string[] =>
  [...text.matchAll(/\btest(?:\.skip)?\(\s*(['"`])((?:(?!\1).)*)/g)].map(([, , name]) => name as string);

/**
 * Descriptions and summaries of schemas and routes, which appear in OpenAPI, `kubectl explain` and tables of settings.
 */
const descriptionsOf = (text: string): string[] =>
  [...text.matchAll(/\b(?:description|summary):\s*((?:(['"`])(?:(?!\2).)*\2[\s+]*)+)/g)].map(([, literals = '']) =>
    literals.replaceAll(/['"`][\s+]+['"`]/g, '').slice(1),
  );

/** Returns `file: text` of each text that breaks the rule. */
const breaking = (rule: RegExp, textsOf: (text: string) => string[]): string[] =>
  sources.flatMap((file) =>
    textsOf(read(file))
      .filter((text) => rule.test(text))
      .map((text) => `${file}: ${text.slice(0, 80)}`),
  );

test('every comment begins with the thing that it describes', () => {
  assert.equal(breaking(PUTS_OFF, commentsOf), []);
});

test('every test name begins with the thing that the test is about', () => {
  assert.equal(breaking(PUTS_OFF, testNamesOf), []);
});

test('every description of a schema or a route begins with the thing that it describes', () => {
  assert.equal(breaking(PUTS_OFF, descriptionsOf), []);
});

test('comments, descriptions and test names say who acts', () => {
  assert.equal(breaking(HIDES, descriptionsOf), []);
  assert.equal(breaking(HIDES, commentsOf), []);
  assert.equal(breaking(HIDES, testNamesOf), []);
});

test('paragraphs and tables of the docs say who acts', () => {
  const hiding = docs().flatMap((file) =>
    withoutBlocks(read(file))
      .split('\n')
      .filter((line) => HIDES.test(line.replaceAll(/`[^`]*`/g, '')))
      .map((line) => `${file}: ${line.slice(0, 80)}`),
  );
  assert.equal(hiding, []);
});

/** Matches the names of programs: scripts and Dockerfiles have no ending. */
const PROGRAM = /(^|\/)[^./]+$|\.(ts|mts|mjs|sql|sh)$/;
/** Matches folders that git ignores: packages, compiled code, and folders of tools. */
const IGNORED = /^(node_modules|dist|\.(?!ci$).*)$/;

function programsIn(folder: string): string[] {
  return readdirSync(path.join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const place = path.join(folder, entry.name);
    if (entry.isDirectory()) return IGNORED.test(entry.name) ? [] : programsIn(place);
    return PROGRAM.test(place) ? [place] : [];
  });
}

test('every line of a program fits into 120 columns', () => {
  const programs = programsIn('.');
  assert.ok(['.ci/run', 'images/Dockerfile', 'scripts/test.mjs', ...sources].every((file) => programs.includes(file)));
  // Biome reads a suppression from one line.
  const withoutSuppressions = (text: string) => text.replaceAll(/^.*biome-ignore.*$/gm, '');
  const long = programs.flatMap((file) => longLines(file, withoutSuppressions(read(file))));
  assert.equal(long, []);
});

/** The pages of this checkout, without those that are generated from a run or quote names of tests. */
function docs(): string[] {
  const pages = [...readdirSync(root).filter((file) => file.endsWith('.md')), ...filesIn('docs', '.md')];
  assert.ok(pages.includes('docs/architecture.md'));
  return pages.filter((file) => !file.startsWith('docs/compatibility'));
}

const withoutBlocks = (text: string) => text.replaceAll(/^ *```[\s\S]*?^ *```/gm, emptied);

test('every paragraph of the docs fits into 120 columns', () => {
  const long = docs().flatMap((file) => longLines(file, withoutBlocks(read(file)).replaceAll(/^ *\|.*$/gm, '')));
  assert.equal(long, []);
});

test.run();
