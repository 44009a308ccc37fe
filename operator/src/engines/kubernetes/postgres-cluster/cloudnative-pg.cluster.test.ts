/**
 * Validates our Cluster against CloudNativePG's own CRD of RELEASE, on a real Kubernetes. Its controller does not run
 * here. The test shows that the API server accepts the object, and that the CRD knows all its fields. The CRD is served
 * under another group during the test: otherwise an operator on this cluster would find CloudNativePG.
 */

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readSite } from '@slipway/installation';
import { KubeError } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { parse } from 'yaml';
import { clientOf, deleteAndWait } from '../../../testing.js';
import type { DesiredObject } from '../children/children.js';
import { clusterKubeconfig, makeIfMissing, SKIPPED } from '../cluster.testing.js';
import { cloudNativePgObjects } from './cloudnative-pg.js';
import { ownPlace, sharedPlace } from './place.js';

const MODULE = 'github.com/cloudnative-pg/cloudnative-pg';
const RELEASE = 'v1.27.0';
const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const GROUP = 'cnpg.slipway.test';

interface Definition {
  metadata: { name: string };
  spec: { group: string };
}

/** Returns the CRD. Go's module cache has it after the first time. */
function theirDefinition(): Definition | undefined {
  try {
    const said = execFileSync('go', ['mod', 'download', '-json', `${MODULE}@${RELEASE}`], {
      ...{ cwd: tmpdir(), encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] },
    });
    const file = path.join(JSON.parse(said).Dir, 'config/crd/bases/postgresql.cnpg.io_clusters.yaml');
    const definition = parse(readFileSync(file, 'utf8')) as Definition;
    return { ...definition, metadata: { name: `clusters.${GROUP}` }, spec: { ...definition.spec, group: GROUP } };
  } catch {
    return undefined;
  }
}

const definition = clusterKubeconfig ? theirDefinition() : undefined;
if (clusterKubeconfig && definition) testOn(clusterKubeconfig, definition);
else console.log(clusterKubeconfig ? `# skipped: no Go that fetches the CRD of ${MODULE}` : SKIPPED);

function testOn(kubeconfig: string, crd: Definition): void {
  const test = suite(`CloudNativePG ${RELEASE}, its CRD alone`);
  const served = `/apis/${GROUP}/v1/namespaces/default/clusters`;

  test.before(async () => {
    const client = await clientOf(kubeconfig);
    await makeIfMissing(client, DEFINITIONS, crd);
    await until(() => client.get(served).catch(() => undefined), 'the CRD to be served');
    await client.close();
  });
  test.after(async () => {
    const client = await clientOf(kubeconfig);
    await deleteAndWait(client, `${DEFINITIONS}/${crd.metadata.name}`);
    await client.close();
  });

  const site = readSite('{publicUrl: "http://slipway.test", storageClass: fast, images: {pullSecrets: [registry]}}');
  const places = { shared: sharedPlace('eu-central'), own: ownPlace({ ref: 'ea-own', uid: 'uid', retain: false }) };
  const wanted = (place: (typeof places)[keyof typeof places]) => {
    const asked = { place, size: { ...site.sharedDatabase, instances: 3 }, suspended: false, password: 'x', site };
    const cluster = cloudNativePgObjects(asked, undefined).at(-1) as DesiredObject;
    const { ownerReferences: _owner, ...metadata } = cluster.metadata;
    const moved = { ...metadata, namespace: 'default' };
    return { ...cluster, apiVersion: `${GROUP}/v1`, metadata: moved } as Record<string, unknown>;
  };
  const apply = async (body: Record<string, unknown>) => {
    const client = await clientOf(kubeconfig);
    try {
      const query = { fieldManager: 'test', force: 'true', dryRun: 'All', fieldValidation: 'Strict' };
      const contentType = 'application/apply-patch+yaml';
      const { name } = body.metadata as { name: string };
      return await client.request<object>({ method: 'PATCH', path: `${served}/${name}`, query, contentType, body });
    } finally {
      await client.close();
    }
  };

  for (const [name, place] of Object.entries(places)) {
    test(`the CRD accepts the ${name} Cluster, field by field (its controller does not run here)`, async () => {
      const asked = wanted(place);
      const { spec } = (await apply(asked)) as { spec: Record<string, unknown> };
      const { spec: ours } = asked as { spec: Record<string, unknown> };
      for (const [field, value] of Object.entries(ours)) assert.equal(pick(spec[field], value), value, field);
    });
  }

  test('the CRD rejects an unknown field, so that the test above would fail', async () => {
    const asked = wanted(places.shared) as { spec: object };
    const wrong = { ...asked, spec: { ...asked.spec, enableSuperuser: true } };
    const refusal = await apply(wrong).catch((error) => error);
    assert.instance(refusal, KubeError);
    assert.match(refusal.message, /enableSuperuser/);
  });

  test.run();
}

/** Returns the fields of `found` that `wanted` names: the CRD adds defaults. */
function pick(found: unknown, wanted: unknown): unknown {
  if (Array.isArray(found) && Array.isArray(wanted)) return found.map((item, index) => pick(item, wanted[index]));
  if (typeof found !== 'object' || typeof wanted !== 'object' || !found || !wanted) return found;
  const map = found as Record<string, unknown>;
  return Object.fromEntries(Object.entries(wanted).map(([key, value]) => [key, pick(map[key], value)]));
}
