/** The kinds that are there without a definition. */

import { builtinSchema } from '../fieldmanager/index.js';
import { compileSchema } from '../schema/index.js';
import { configMap } from './builtin/config-map.js';
import { customResourceDefinition } from './builtin/custom-resource-definition.js';
import { event } from './builtin/event.js';
import { lease } from './builtin/lease.js';
import { namespace } from './builtin/namespace.js';
import { secret } from './builtin/secret.js';
import { ALL_VERBS, apiVersionOf, type Resource, storageName } from './resource.js';

/** What a kind's own file says of it. */
export type BuiltinKind = Pick<Resource, 'columns' | 'strategy'> & Partial<Resource> & { kind: string };

const KINDS: readonly (BuiltinKind & Pick<Resource, 'group' | 'version' | 'plural' | 'namespaced'>)[] = [
  { ...namespace, group: '', version: 'v1', plural: 'namespaces', namespaced: false },
  { ...secret, group: '', version: 'v1', plural: 'secrets', namespaced: true },
  { ...configMap, group: '', version: 'v1', plural: 'configmaps', namespaced: true },
  { ...event, group: '', version: 'v1', plural: 'events', namespaced: true },
  { ...lease, group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespaced: true },
  {
    ...customResourceDefinition,
    ...{ group: 'apiextensions.k8s.io', version: 'v1', plural: 'customresourcedefinitions', namespaced: false },
  },
];

export function builtins(): Resource[] {
  return KINDS.map((kind) => {
    const apiVersion = apiVersionOf(kind.group, kind.version);
    return {
      ...{ apiVersion, listKind: `${kind.kind}List`, singular: kind.kind.toLowerCase() },
      ...{ shortNames: [], categories: [], verbs: ALL_VERBS, custom: false, subresources: [], generation: false },
      ...{ unconditionalUpdate: true, createOnUpdate: false, nameRule: 'subdomain' as const },
      storage: storageName(kind.group, kind.plural),
      storedApiVersion: apiVersion,
      schema: compileSchema({ type: 'object', 'x-kubernetes-preserve-unknown-fields': true }),
      applySchema: builtinSchema(apiVersion, kind.kind),
      ...kind,
    };
  });
}
