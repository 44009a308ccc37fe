/**
 * Which folder may import which: the table in docs/architecture.md, held. Tests may use a real Postgres and a real
 * Kubernetes API.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../', import.meta.url));

const ALL = ['crds', 'postgres', 'apiserver', 'project-database', 'operator', 'api', 'dataplane'];
const MAY_IMPORT: Record<string, string[]> = {
  crds: [],
  postgres: [],
  apiserver: [],
  'project-database': ['crds'],
  operator: ['crds', 'project-database'],
  api: ['crds'],
  dataplane: ['crds', 'project-database'],
  slipway: ALL,
  cdk8s: ['crds'],
  e2e: [...ALL, 'slipway', 'cdk8s'],
  bench: [...ALL, 'slipway', 'e2e'],
};
/** Has beside its sources what only tests use. */
const FOR_TESTS = /(\.test|\.suite|(^|[./])testing)(\.ts|\/)/;

test('every workspace has its arrows', () => {
  const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  assert.equal([...workspaces].sort(), Object.keys(MAY_IMPORT).sort());
});

for (const [folder, allowed] of Object.entries(MAY_IMPORT)) {
  test(`${folder} imports ${allowed.join(', ') || 'nothing of ours'}`, () => {
    assert.equal(forbiddenImports(folder, allowed), []);
  });
}

function forbiddenImports(folder: string, allowed: string[]): string[] {
  const source = path.join(root, folder, 'src');
  return readdirSync(source, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => {
      const mine = FOR_TESTS.test(file) ? [...allowed, 'crds', 'postgres', 'apiserver'] : allowed;
      return importsOf(readFileSync(path.join(source, file), 'utf8'))
        .filter((name) => isForbidden(name, path.dirname(file), mine))
        .map((name) => `${folder}/src/${file} imports ${name}`);
    });
}

/** The modules that a source names: in import, export … from, and import(). */
function importsOf(source: string): string[] {
  const named =
    /^\s*(?:import|export)\b[^'"]*?\bfrom\s+['"]([^'"]+)['"]|^\s*import\s+['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm;
  return [...source.matchAll(named)].map(([, from, bare, dynamic]) => (from ?? bare ?? dynamic) as string);
}

function isForbidden(name: string, from: string, allowed: string[]): boolean {
  // A path out of the folder would go around the packages.
  if (name.startsWith('.')) return path.normalize(path.join(from, name)).startsWith('..');
  const ours = /^@slipway\/([^/]+)/.exec(name);
  return ours !== null && !allowed.includes(ours[1] as string);
}

test.run();
