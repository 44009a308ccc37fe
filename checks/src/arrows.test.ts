/**
 * Enforces which folder may import which, as the table in docs/architecture.md says. Tests may use a real Postgres, a
 * real Kubernetes API and certificates of their own making.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOR_TESTS, importsOf, root, sourcesIn } from './sources.js';

const ALL = [
  'program',
  'crds',
  'installation',
  'postgres',
  'apiserver',
  'kubernetes',
  'sandbox',
  'sites',
  'certificates',
  'kaniko-build-wrapper',
  'project-database',
  'operator',
  'api',
  'dataplane',
];
const MAY_IMPORT: Record<string, string[]> = {
  program: [],
  testing: [],
  crds: [],
  installation: ['program', 'crds'],
  postgres: [],
  apiserver: ['program'],
  kubernetes: ['program'],
  sandbox: [],
  sites: ['program'],
  certificates: ['program'],
  'kaniko-build-wrapper': ['program', 'sandbox', 'sites'],
  'project-database': ['installation'],
  operator: [
    'program',
    'crds',
    'installation',
    'kubernetes',
    'sites',
    'certificates',
    'kaniko-build-wrapper',
    'project-database',
  ],
  api: ['program', 'crds', 'installation', 'kubernetes', 'sites'],
  dataplane: ['program', 'crds', 'installation', 'kubernetes', 'sandbox', 'sites', 'certificates', 'project-database'],
  slipway: ALL,
  cdk8s: ['program', 'crds', 'installation', 'kubernetes'],
  e2e: [...ALL, 'slipway', 'cdk8s', 'testing'],
  checks: [],
  bench: [...ALL, 'slipway', 'e2e', 'testing'],
};
test('every workspace has a row of allowed imports', () => {
  const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  assert.equal([...workspaces].sort(), Object.keys(MAY_IMPORT).sort());
});

for (const [folder, allowed] of Object.entries(MAY_IMPORT)) {
  test(`${folder} imports ${allowed.join(', ') || 'no workspace'}`, () => {
    assert.equal(forbiddenImports(folder, allowed), []);
  });
}

/** Files that test or measure client-node itself. */
const TRIES_CLIENT_NODE = [
  'apiserver/src/conformance/',
  'apiserver/src/schema/reference-server.ts',
  'bench/src/reconcile/hollow-loop.ts',
];

test('no folder except kubernetes imports client-node outside of tests and benches', () => {
  const importers = Object.keys(MAY_IMPORT).flatMap((folder) =>
    sourcesOf(folder)
      .filter(([, text]) => importsOf(text).includes('@kubernetes/client-node'))
      .map(([file]) => `${folder}/src/${file}`),
  );
  const others = importers.filter((file) => !file.startsWith('kubernetes/'));
  assert.equal(
    others.filter((file) => !TRIES_CLIENT_NODE.some((place) => file.startsWith(place))),
    [],
  );
});

/** Paths are from the folder's `src`. */
const sourcesOf = (folder: string): [file: string, text: string][] =>
  sourcesIn(folder).map((file) => [file.slice(`${folder}/src/`.length), readFileSync(path.join(root, file), 'utf8')]);

function forbiddenImports(folder: string, allowed: string[]): string[] {
  return sourcesOf(folder).flatMap(([file, text]) => {
    const mine = FOR_TESTS.test(file)
      ? [...allowed, 'testing', 'crds', 'postgres', 'apiserver', 'kubernetes', 'certificates']
      : allowed;
    return importsOf(text)
      .filter((name) => isForbidden(name, path.dirname(file), mine))
      .map((name) => `${folder}/src/${file} imports ${name}`);
  });
}

function isForbidden(name: string, from: string, allowed: string[]): boolean {
  // A relative path out of the folder would bypass the packages.
  if (name.startsWith('.')) return path.normalize(path.join(from, name)).startsWith('..');
  const ours = /^@slipway\/([^/]+)/.exec(name);
  return ours !== null && !allowed.includes(ours[1] as string);
}

test.run();
