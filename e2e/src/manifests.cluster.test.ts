/** Checks every kustomization in manifests/ with a real API server, which must accept each object. */
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BUILDS_NAMESPACE, DATA_NAMESPACE, SYSTEM_NAMESPACE } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parseAllDocuments, stringify } from 'yaml';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { uninstallLeftOver } from './cluster/installation.js';
import { kubectl } from './kubectl.js';

const MANIFESTS = path.join(ROOT, 'manifests');

const cluster = givenCluster();
if (cluster) {
  const run = (args: string[], input?: string) => kubectl(cluster.kubeconfig, args, input);
  const made: string[] = [];

  // If Slipway is installed, a dry run is an update, and Kubernetes rejects most updates of a StatefulSet. A dry run
  // also makes no namespace for the objects after it.
  test.before(async () => {
    await uninstallLeftOver(ROOT, cluster.kubeconfig, cluster.overlay);
    for (const namespace of [SYSTEM_NAMESPACE, DATA_NAMESPACE, BUILDS_NAMESPACE]) {
      if ((await run(['get', 'namespace', namespace, '--ignore-not-found'])) !== '') continue;
      await run(['create', 'namespace', namespace]);
      made.push(namespace);
    }
  });
  test.after(async () => {
    for (const namespace of made) await run(['delete', 'namespace', namespace]);
  });

  for (const folder of ['base', 'overlays/kind', 'overlays/test']) {
    test(`the API server accepts all objects of manifests/${folder}`, async () => {
      const objects = await run(['kustomize', path.join(MANIFESTS, folder)]);
      assert.equal(await refused(objects), []);
    });
  }

  for (const component of await readdir(path.join(MANIFESTS, 'components'))) {
    test(`the API server accepts the base with the component ${component}`, async () => {
      const objects = await withComponent(component);
      assert.is.not(objects, await run(['kustomize', path.join(MANIFESTS, 'base')]));
      assert.equal(await refused(objects), []);
    });
  }

  /** Returns the server's messages for objects that it rejects, or accepts with a warning. */
  const refused = async (objects: string): Promise<string[]> => {
    const count = parseAllDocuments(objects).length;
    const output = await run(['apply', '--dry-run=server', '--warnings-as-errors', '-f', '-'], objects).catch(
      (error: Error) => error.message,
    );
    const lines = output.trim().split('\n');
    const taken = lines.filter((line) => line.endsWith('(server dry run)'));
    return taken.length === count ? [] : lines.filter((line) => !taken.includes(line));
  };

  /** A kustomization can name bases only by relative paths, so this one is temporarily beside them. */
  const withComponent = async (component: string): Promise<string> => {
    const parent = path.join(ROOT, 'e2e', 'dist');
    await mkdir(parent, { recursive: true });
    const folder = await mkdtemp(path.join(parent, 'kustomization-'));
    try {
      const to = (name: string) => path.relative(folder, path.join(MANIFESTS, name));
      const kustomization = {
        apiVersion: 'kustomize.config.k8s.io/v1beta1',
        kind: 'Kustomization',
        resources: [to('base')],
        components: [to(`components/${component}`)],
      };
      await writeFile(path.join(folder, 'kustomization.yaml'), stringify(kustomization));
      return await run(['kustomize', folder]);
    } finally {
      await rm(folder, { recursive: true });
    }
  };
}

test.run();
