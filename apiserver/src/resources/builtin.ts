/** The kinds that exist without a CustomResourceDefinition. */

import { builtinSchema } from '../fieldmanager/index.js';
import { builtinResources } from '../openapi/index.js';
import { compileSchema } from '../schema/index.js';
import { configMap } from './builtin/config-map.js';
import { customResourceDefinition } from './builtin/custom-resource-definition.js';
import { event } from './builtin/event.js';
import { lease } from './builtin/lease.js';
import { namespace } from './builtin/namespace.js';
import { secret } from './builtin/secret.js';
import { ALL_VERBS, apiVersionOf, type Resource, storageName } from './resource.js';

/** The part of a kind that its own file defines. Names and schema come from the OpenAPI documents. */
export type BuiltinKind = Pick<Resource, 'columns' | 'strategy'> & Partial<Resource> & { kind: string };

const KINDS: readonly BuiltinKind[] = [namespace, secret, configMap, event, lease, customResourceDefinition];

export function builtins(): Resource[] {
  return KINDS.map((kind) => {
    const documented = builtinResources.find((resource) => resource.kind === kind.kind);
    if (!documented) throw new Error(`no schema of ${kind.kind}`);
    const { group, version, plural, listKind, namespaced, schema } = documented;
    const apiVersion = apiVersionOf(group, version);
    return {
      ...{ group, version, apiVersion, plural, listKind, namespaced, singular: kind.kind.toLowerCase() },
      ...{ shortNames: [], categories: [], verbs: ALL_VERBS, custom: false, subresources: [], generation: false },
      ...{ unconditionalUpdate: true, createOnUpdate: false, nameRule: 'subdomain' as const },
      storage: storageName(group, plural),
      storedApiVersion: apiVersion,
      schema: compileSchema(schema),
      applySchema: builtinSchema(apiVersion, kind.kind),
      ...kind,
    };
  });
}
