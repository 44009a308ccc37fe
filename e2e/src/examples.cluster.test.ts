/**
 * Tests every YAML example in README.md and docs/. A real API server must accept the objects and the output of
 * kustomizations, and the programs must accept the settings of a site.
 */
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { customResourceDefinitions } from '@slipway/crds';
import { readSite } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseAllDocuments } from 'yaml';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { uninstallLeftOver } from './cluster/installation.js';
import { kubectl } from './kubectl.js';

interface Example {
  /** For example `docs/cluster.md:42`. */
  where: string;
  text: string;
}

async function examples(): Promise<Example[]> {
  const inDocs = await readdir(path.join(ROOT, 'docs'), { recursive: true });
  const pages = ['README.md', ...inDocs.filter((file) => file.endsWith('.md')).map((file) => `docs/${file}`)];
  const found = await Promise.all(
    pages.map(async (page) => examplesIn(page, await readFile(path.join(ROOT, page), 'utf8'))),
  );
  return found.flat();
}

/** Returns the YAML blocks, and the here-documents that a shell block passes to `kubectl apply -f -`. */
function examplesIn(page: string, text: string): Example[] {
  const blocks = text.matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm);
  const piped = text.matchAll(/^( *)kubectl apply -f - <<(?:'?)END(?:'?)\n([\s\S]*?)^ *END$/gm);
  return [...blocks, ...piped].map(({ 1: indent = '', 2: body = '', index }) => ({
    where: `${page}:${text.slice(0, index).split('\n').length}`,
    text: body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  }));
}

const isSite = ({ text }: Example) => text.startsWith('# site.yaml');
const isKustomization = ({ text }: Example) => text.startsWith('# kustomization.yaml');

const cluster = givenCluster();
if (cluster) {
  const run = (args: string[], input?: string) => kubectl(cluster.kubeconfig, args, input);
  const all = await examples();
  const site = all.find(isSite);

  // If Slipway is installed, a dry run is an update, and Kubernetes rejects most updates of a StatefulSet.
  test.before(async () => {
    await uninstallLeftOver(ROOT, cluster.kubeconfig, cluster.overlay);
    const definitions = { apiVersion: 'v1', kind: 'List', items: customResourceDefinitions };
    await run(['apply', '-f', '-'], JSON.stringify(definitions));
    const names = customResourceDefinitions.map(({ metadata }) => `crd/${metadata.name}`);
    await run(['wait', '--for=condition=Established', ...names, '--timeout=30s']);
  });

  test('the documentation has an example of each kind of file that an administrator writes', () => {
    assert.ok(site && all.some(isKustomization));
    assert.ok(all.some(({ text }) => text.includes('kind: Project')));
  });

  for (const example of all) {
    if (isSite(example)) {
      test(`the programs accept ${example.where} as settings`, () => {
        assert.ok(readSite(example.text));
      });
    } else if (isKustomization(example)) {
      test(`the API server accepts the kustomization ${example.where}`, async () => {
        await taken(await built(example));
      });
    } else {
      test(`the API server accepts ${example.where}`, () => taken(example.text));
    }
  }

  /** Applies the objects as a dry run, in namespaces that are made for this if they are missing. */
  const taken = async (objects: string): Promise<void> => {
    const namespaces = parseAllDocuments(objects).map((document) => document.getIn(['metadata', 'namespace']));
    const made: string[] = [];
    try {
      for (const namespace of new Set(namespaces.filter((name) => name !== undefined) as string[])) {
        if ((await run(['get', 'namespace', namespace, '--ignore-not-found'])) !== '') continue;
        await run(['create', 'namespace', namespace]);
        made.push(namespace);
      }
      await run(['apply', '--dry-run=server', '--warnings-as-errors', '-f', '-'], objects);
    } finally {
      for (const namespace of made) await run(['delete', 'namespace', namespace]);
    }
  };

  /**
   * Builds the kustomization in a temporary folder beside manifests/, as the page says, and with that page's settings.
   */
  const built = async ({ text }: Example): Promise<string> => {
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-site-'));
    try {
      await symlink(path.join(ROOT, 'manifests'), path.join(folder, 'manifests'));
      await mkdir(path.join(folder, 'site'));
      await writeFile(path.join(folder, 'site', 'site.yaml'), site?.text ?? '');
      const isWhole = text.includes('resources:');
      await writeFile(
        path.join(folder, 'site', 'kustomization.yaml'),
        isWhole ? text : `resources:\n  - ../manifests/base\n${text}`,
      );
      return await run(['kustomize', path.join(folder, 'site')]);
    } finally {
      await rm(folder, { recursive: true });
    }
  };
}

test.run();
