// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the examples are code with templates.
/**
 * Rejects JSON.parse in the programs, outside of program/src/json.ts: a tenant, a caller or another server could send
 * text that takes long to parse. It finds each mention of JSON other than JSON.stringify and JSON.rawJSON, so that no
 * alias hides a call. Places that parse trusted text are listed here, with their number and the reason.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { codeText } from './code-text.js';
import { FOR_TESTS, PRODUCT, root, sourcesIn } from './sources.js';

const isForTests = (file: string) =>
  FOR_TESTS.test(file) || /^apiserver\/src\/conformance\/|reference-server\.ts$/.test(file);

const ALLOWED: Record<string, [count: number, reason: string]> = {
  'program/src/json.ts': [3, 'decodes within a bound'],
  'program/src/json-in-turns.ts': [1, 'decodes within a bound, a part at a time'],
  'api/src/http/adapter.ts': [1, "Fastify's parser, after the values of the body were counted"],
  'api/src/http/openapi.ts': [1, 'an option of Swagger that names a format'],
  'api/src/accounts/link-page.ts': [1, 'the script of a page, which reads a response of this API in the browser'],
  'dataplane/src/settings.ts': [1, 'a settings file of the operator of the platform'],
  'api/src/settings/settings.ts': [1, 'a settings file of the operator of the platform'],
  'apiserver/src/settings.ts': [1, 'a settings file of the operator of the platform'],
  'slipway/src/settings.ts': [1, 'a settings file of the operator of the platform'],
  'sandbox/src/installed-deno.ts': [1, 'the version in the package.json of an installed package'],
  'postgres/src/log-record.ts': [1, 'a message of the server, whose bytes are bounded: one object of some 30 members'],
  'postgres/src/binaries.ts': [2, 'the version and the list of links in an installed package'],
  'dataplane/src/services/functions/runtime/bootstrap.ts': [
    1,
    'a configuration that the data plane writes, read by the isolate',
  ],
  'api/src/mcp/tools.ts': [1, 'a copy of a schema in the source'],
  'crds/src/resource.ts': [1, 'a copy of a definition in the source'],
  'operator/src/engines/cloud/software/on-machine/apply.ts': [
    2,
    'the state that the operator sends, and its own records',
  ],
  'operator/src/engines/cloud/software/pack/entries.ts': [1, 'the list of links in an installed package'],
  'operator/src/engines/cloud/software/pack/make-pack.ts': [2, 'the lockfile of the installation; a file of its own'],
  'operator/src/engines/cloud/software/pack/pack.ts': [1, 'the output of a program of ours'],
  'operator/src/engines/kubernetes/children/kinds.ts': [2, 'copies of parts of an object that was decoded'],
  'apiserver/src/patch/json-patch.ts': [1, 'a copy whose bytes have been counted'],
  'apiserver/src/storage/store.ts': [1, 'a stored object, which was decoded within a bound before'],
  'apiserver/src/storage/stored-object.ts': [1, 'a stored object, which was decoded within a bound before'],
};

/** Responses and Fastify have decoders of their own. */
const DECODING =
  /\bJSON\b(?!\.(?:stringify|rawJSON)\b)|\.\s*json\s*\(\s*\)|\[\s*['"`]json['"`]\s*\]|\bgetDefaultJsonParser\b/g;

/** Keeps the names of members in strings, and code for another program. Prose may name JSON. */
const withoutProse = (text: string) =>
  /^json$/i.test(text) ? text : (text.match(/\bJSON(?:\?\.|\.|\[['"])\w+|\.json\(\)/g)?.join(';') ?? '');

const decodingsOf = (source: string) => [...codeText(source, withoutProse).matchAll(DECODING)].length;

const countOf = (file: string) => decodingsOf(readFileSync(path.join(root, file), 'utf8'));

test('JSON.parse is called only in one module, and in listed places with trusted text', () => {
  const found = PRODUCT.flatMap(sourcesIn)
    .filter((file) => !isForTests(file))
    .map((file) => [file, countOf(file)] as const)
    .filter(([, count]) => count > 0);
  const allowed = Object.entries(ALLOWED).map(([file, [count]]) => [file, count] as const);
  assert.equal(Object.fromEntries(found.toSorted()), Object.fromEntries(allowed.toSorted()));
});

test('the search finds JSON.parse in every notation', () => {
  for (const text of [
    'JSON.parse(x)',
    'JSON\n  .parse(x)',
    'map(JSON.parse)',
    "JSON['parse'](x)",
    'JSON?.parse(x)',
    'const { parse } = JSON;',
    'const J = JSON;',
    "Reflect.get(JSON, 'parse')",
    "globalThis['JSON'].parse(x)",
    '`text ${JSON.parse(x)} text`',
    '`text ${`${{ a: 1 }.a}`} ${JSON.parse(x)}`',
    '`<script>x = JSON.parse(y)</script>`',
    'const quotes = /[\'"`]/; JSON.parse(x)',
    'a / b; JSON.parse(x) / c',
    'await response.body.json()',
    "await response['json']()",
  ])
    assert.is(decodingsOf(text), 1, text);
  assert.is(decodingsOf('JSON.parse(x); map(JSON.parse)'), 2);
  for (const text of [
    '// JSON.parse(x)',
    'x; // by JSON.parse',
    '/** by JSON.parse */',
    'JSON.stringify(x)',
    'JSON.rawJSON(x)',
    'parseJson(x)',
    "throw new Error('the text is not JSON')",
    'throw new Error(`${name} is not JSON. Send JSON`)',
  ])
    assert.is(decodingsOf(text), 0, text);
});

test.run();
