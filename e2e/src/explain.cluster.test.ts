/** The texts of `kubectl explain` for our resources, on a real cluster: every field has one. */
import { customResourceDefinitions } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { givenCluster } from './cluster/given.js';
import { kubectl } from './kubectl.js';

const cluster = givenCluster();

/** The paths of all fields below, out of what `--recursive` prints: a line each, indented by two for each step down. */
function pathsOf(resource: string, printed: string): string[] {
  const trail: string[] = [resource];
  return [...printed.matchAll(/^((?: {2})+)(\w+)\t</gm)].map(([, indent = '', name = '']) => {
    trail.length = indent.length / 2;
    trail.push(name);
    return trail.join('.');
  });
}

async function isDescribed(kubeconfig: string, path: string): Promise<boolean> {
  const said = await kubectl(kubeconfig, ['explain', path]);
  const [, text = ''] = /^DESCRIPTION:\n([\s\S]*?)(?:\nFIELDS:|$)/m.exec(said) ?? [];
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
        const paths = [part, ...pathsOf(part, await kubectl(kubeconfig, ['explain', part, '--recursive']))];
        assert.ok(paths.length > 1);
        for (const path of paths) if (!(await isDescribed(kubeconfig, path))) silent.push(path);
      }
      assert.equal(silent, []);
    });
  }
  test.run();
}
