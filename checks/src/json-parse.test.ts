/**
 * Rejects JSON.parse in the programs, outside of program/src/json.ts: a tenant, a caller or another server could send
 * text that takes long to parse. Places that parse trusted text are listed here, with the reason.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROGRAMS, root, sourcesIn } from './sources.js';

const FOR_TESTS = /(\.test|\.suite|(^|[./])testing)(\.ts|\/)|^apiserver\/src\/conformance\/|reference-server\.ts$/;

const ALLOWED: Record<string, string> = {
  'program/src/json.ts': 'decodes within a bound',
  'program/src/json-in-turns.ts': 'decodes within a bound, a part at a time',
  'api/src/http/adapter.ts': "Fastify's parser, after the values of the body were counted",
  'api/src/accounts/link-page.ts': 'the script of a page, which reads a response of this API in the browser',
  'dataplane/src/settings.ts': 'a settings file of the operator of the platform',
  'api/src/settings/settings.ts': 'a settings file of the operator of the platform',
  'apiserver/src/settings.ts': 'a settings file of the operator of the platform',
  'sandbox/src/installed-deno.ts': 'the version in the package.json of an installed package',
  'dataplane/src/services/functions/runtime/bootstrap.ts':
    'a configuration that the data plane writes, read by the isolate',
  'api/src/mcp/tools.ts': 'a copy of a schema in the source',
  'operator/src/engines/kubernetes/children/kinds.ts': 'a copy of an object that was decoded',
  'apiserver/src/patch/json-patch.ts': 'a copy whose bytes have been counted',
  'apiserver/src/storage/store.ts': 'a stored object, which was decoded within a bound before',
  'apiserver/src/storage/stored-object.ts': 'a stored object, which was decoded within a bound before',
};

const placesOf = (folder: string) =>
  sourcesIn(folder)
    .filter((file) => !FOR_TESTS.test(file))
    .filter((file) => isDecoding(readFileSync(path.join(root, file), 'utf8')));

/** Comments may name JSON.parse. Responses and Fastify have decoders of their own. */
const isDecoding = (source: string) =>
  /\bJSON\s*(\?\.|\.|\[)\s*['"]?parse\b|\bparse\b[^}\n]*\}\s*=\s*JSON\b|\.json\(\)|JsonParser\(/.test(
    source.replaceAll(/^\s*(\/\*\*|\*|\/\/).*$/gm, ''),
  );

test('JSON.parse is called only in one module, and in listed places with trusted text', () => {
  assert.equal(PROGRAMS.flatMap(placesOf).sort(), Object.keys(ALLOWED).sort());
});

test('the search finds JSON.parse in every notation', () => {
  for (const text of [
    'JSON.parse(x)',
    'map(JSON.parse)',
    "JSON['parse'](x)",
    'const { parse } = JSON;',
    'await response.body.json()',
  ])
    assert.ok(isDecoding(text), text);
  for (const text of ['// JSON.parse(x)', ' * by JSON.parse', 'JSON.stringify(x)', 'parseJson(x)'])
    assert.not(isDecoding(text), text);
});

test.run();
