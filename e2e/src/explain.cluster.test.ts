/** Checks on a real cluster that `kubectl explain` has a text for every field of our resources. */
import { customResourceDefinitions } from '@slipway/crds';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { givenCluster } from './cluster/given.js';
import { kubectl } from './kubectl.js';

const cluster = givenCluster();

/**
 * Parses the output of `--recursive` into the paths of all fields. It has one field a line, indented by two for each
 * level.
 */
function pathsOf(resource: string, printed: string): string[] {
  const trail: string[] = [resource];
  return [...printed.matchAll(/^((?: {2})+)(\w+)\t</gm)].map(([, indent = '', name = '']) => {
    trail.length = indent.length / 2;
    trail.push(name);
    return trail.join('.');
  });
}

async function isDescribed(kubeconfig: string, path: string): Promise<boolean> {
  const output = await kubectl(kubeconfig, ['explain', path]);
  const [, text = ''] = /^DESCRIPTION:\n([\s\S]*?)(?:\nFIELDS:|$)/m.exec(output) ?? [];
  return text.trim() !== '' && !text.includes('<empty>');
}

if (cluster) {
  const { kubeconfig } = cluster;
  for (const crd of customResourceDefinitions) {
    const { singular } = crd.spec.names;
    test(`kubectl explain documents every field of ${singular}`, async () => {
      await kubectl(kubeconfig, ['apply', '-f', '-'], JSON.stringify(crd));
      await kubectl(kubeconfig, ['wait', '--for=condition=Established', `crd/${crd.metadata.name}`, '--timeout=30s']);
      const silent: string[] = [];
      for (const part of [`${singular}.spec`, `${singular}.status`]) {
        // The API server publishes the fields of a new resource some time after it serves the resource.
        const tree = () => kubectl(kubeconfig, ['explain', part, '--recursive']).catch(() => undefined);
        const paths = [part, ...pathsOf(part, await until(tree, `${part} to be published`))];
        assert.ok(paths.length > 1);
        for (const path of paths) if (!(await isDescribed(kubeconfig, path))) silent.push(path);
      }
      assert.equal(silent, []);
    });
  }
  test.run();
}
