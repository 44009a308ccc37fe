import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { customResourceDefinitions } from './index.js';

interface Schema {
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: Schema;
}

/** Returns every field below `schema` with its name in `kubectl explain`, which skips lists and maps. */
function fields(schema: Schema, path: string): [string, Schema][] {
  const inner = schema.items ?? schema.additionalProperties;
  if (inner) return fields(inner, path);
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => [
    [`${path}.${name}`, field] as [string, Schema],
    ...fields(field, `${path}.${name}`),
  ]);
}

for (const crd of customResourceDefinitions) {
  const { singular } = crd.spec.names;
  test(`every field of ${singular} is described`, () => {
    const { properties } = (crd.spec.versions[0] as (typeof crd.spec.versions)[0]).schema.openAPIV3Schema;
    const { spec, status } = properties as unknown as Record<'spec' | 'status', Schema>;
    const silent = fields({ properties: { spec, status } }, singular).filter(([, { description }]) => !description);
    assert.equal(
      silent.map(([path]) => path),
      [],
    );
  });
}

test.run();
