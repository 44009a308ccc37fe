/** Helpers of the checks: the repository's folder, the sources of the product, and their imports. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));

/** The folders whose code runs in an installation. */
export const PRODUCT = [
  'api',
  'apiserver',
  'certificates',
  'crds',
  'dataplane',
  'installation',
  'kaniko-build-wrapper',
  'kubernetes',
  'operator',
  'postgres',
  'program',
  'project-database',
  'sandbox',
  'sites',
  'slipway',
];

/** The programs of an installation, and the packages that run within them. */
export const PROGRAMS = [
  'program',
  'kubernetes',
  'sandbox',
  'kaniko-build-wrapper',
  'sites',
  'certificates',
  'dataplane',
  'api',
  'operator',
  'apiserver',
];

/** Returns the paths of a folder's sources, relative to the repository. */
export const sourcesIn = (folder: string): string[] =>
  readdirSync(`${root}${folder}/src`, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => `${folder}/src/${file}`);

/** Matches the paths of files that only tests use, beside the sources. */
export const FOR_TESTS = /(\.test|\.suite|(^|[./])testing)(\.ts|\/)/;

/** Returns the modules that a source names: in import, export … from, and import(). */
export function importsOf(source: string): string[] {
  const from = /^\s*(?:import|export)\b[^'"]*?\bfrom\s+['"]([^'"]+)['"]/;
  const bare = /^\s*import\s+['"]([^'"]+)['"]/;
  const dynamic = /\bimport\(\s*['"]([^'"]+)['"]/;
  const named = new RegExp([from, bare, dynamic].map((form) => form.source).join('|'), 'gm');
  return [...source.matchAll(named)].map((match) => match.slice(1).find((name) => name !== undefined) as string);
}
