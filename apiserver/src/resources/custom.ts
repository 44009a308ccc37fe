/** Makes resources of a CustomResourceDefinition, one for each served version. */
import type { KubeObject } from '../objects.js';
import { compileSchema, type JsonSchema } from '../schema/index.js';
import { type DefinedVersion, definitionOf } from './builtin/custom-resource-definition.js';
import { customColumns } from './columns.js';
import { compileJsonPath } from './json-path.js';
import { ALL_VERBS, apiVersionOf, type Resource, type Strategy, storageName } from './resource.js';

export function customResources(definition: KubeObject): Resource[] {
  const { spec, status } = definitionOf(definition);
  const established = status.conditions.some(({ type, status: value }) => type === 'Established' && value === 'True');
  if (!established) return [];
  return spec.versions.filter(({ served }) => served).map((version) => customResource(definition, version));
}

function customResource(definition: KubeObject, version: DefinedVersion): Resource {
  const { group, names, scope, versions } = definitionOf(definition).spec;
  const stored = versions.find(({ storage }) => storage) ?? version;
  const source = (version.schema?.openAPIV3Schema ?? {}) as JsonSchema;
  return {
    group,
    version: version.name,
    apiVersion: apiVersionOf(group, version.name),
    plural: names.plural,
    singular: names.singular ?? names.kind.toLowerCase(),
    kind: names.kind,
    listKind: names.listKind ?? `${names.kind}List`,
    namespaced: scope === 'Namespaced',
    shortNames: names.shortNames ?? [],
    categories: names.categories ?? [],
    verbs: ALL_VERBS,
    custom: true,
    storage: storageName(group, names.plural),
    storedApiVersion: apiVersionOf(group, stored.name),
    subresources: version.subresources?.status ? ['status'] : [],
    generation: true,
    unconditionalUpdate: false,
    createOnUpdate: false,
    nameRule: 'subdomain',
    schema: compileSchema(source),
    applySchema: source,
    columns: customColumns(version.additionalPrinterColumns),
    strategy: selectable(version),
  };
}

function selectable({ selectableFields = [] }: DefinedVersion): Strategy {
  const paths = selectableFields.map(({ jsonPath }) => [jsonPath.slice(1), compileJsonPath(jsonPath)] as const);
  return {
    fieldNames: paths.map(([name]) => name),
    fields: (object) => Object.fromEntries(paths.map(([name, path]) => [name, String(path(object)[0] ?? '')])),
  };
}
