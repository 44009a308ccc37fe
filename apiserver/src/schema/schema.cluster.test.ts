/** Compares the tables of validation with a real kube-apiserver. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { JsonObject } from './json-schema.js';
import { expected, GROUP, PROBE_CASES, PROBE_SCHEMA, PROBES, probe } from './probe-cases.js';
import { establish, type ReferenceServer, referenceServer } from './reference-server.js';
import { REJECTED_DEFINITIONS, REJECTED_METADATA } from './rejected-objects.js';

const DEFINITIONS = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';

const causesOf = (body: JsonObject) =>
  ((body.details as { causes?: { field: string; message: string }[] } | undefined)?.causes ?? [])
    .map(({ field, message }) => `${field}: ${message}`)
    .sort();

const reference = referenceServer();
if (reference) {
  testOn(reference);
  test.after(() => reference.close());
}

function testOn({ call }: ReferenceServer): void {
  test('the real kube-apiserver stores, defaults, prunes and rejects every value as in the table', async () => {
    const name = `probes.${GROUP}`;
    try {
      await establish(call, {
        apiVersion: 'apiextensions.k8s.io/v1',
        kind: 'CustomResourceDefinition',
        metadata: { name },
        spec: {
          group: GROUP,
          names: { kind: 'Probe', plural: 'probes', singular: 'probe', listKind: 'ProbeList' },
          scope: 'Cluster',
          versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: PROBE_SCHEMA } }],
        },
      });
      for (const probeCase of PROBE_CASES) {
        const { code, body } = await call('POST', `${PROBES}?dryRun=All`, probe(probeCase.spec));
        const sent = JSON.stringify(probeCase.spec);
        assert.equal(causesOf(body), expected(probeCase), sent);
        if (code < 300) assert.equal(body.spec, probeCase.stored ?? probeCase.spec, sent);
      }
    } finally {
      await call('DELETE', `${DEFINITIONS}/${name}`);
    }
  });

  test('the real kube-apiserver rejects each CustomResourceDefinition with the errors in the table', async () => {
    for (const { definition: made, refused } of REJECTED_DEFINITIONS) {
      const { body } = await call('POST', `${DEFINITIONS}?dryRun=All`, made);
      assert.equal(causesOf(body), refused, JSON.stringify(made.spec));
    }
  });

  test('the real kube-apiserver rejects metadata with the errors in the table', async () => {
    for (const { metadata, refused } of REJECTED_METADATA) {
      const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata };
      const { body } = await call('POST', '/api/v1/namespaces/default/configmaps?dryRun=All', object);
      assert.equal(causesOf(body), refused, JSON.stringify(metadata).slice(0, 200));
    }
  });
}

test.run();
