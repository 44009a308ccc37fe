/** Tables, which `kubectl get` requests: rows of cells, with as much of each object as the client requests. */
import type { KubeObject } from '../objects.js';
import type { Resource } from './resource.js';

export type IncludeObject = 'None' | 'Metadata' | 'Object';

function columnDefinitions(resource: Resource) {
  return resource.columns.map(({ name, type, format = '', description = '', priority = 0 }) => ({
    name,
    type,
    format,
    description,
    priority,
  }));
}

function tableRow(resource: Resource, object: KubeObject, include: IncludeObject, now: number) {
  return { cells: resource.columns.map((column) => column.cell(object, now)), object: included(object, include) };
}

function included(object: KubeObject, include: IncludeObject) {
  if (include === 'Object') return object;
  if (include === 'None') return undefined;
  return { kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: object.metadata };
}

export function table(
  resource: Resource,
  objects: readonly KubeObject[],
  { metadata, include, columns = true }: { metadata: object; include: IncludeObject; columns?: boolean },
) {
  const now = Date.now();
  return {
    kind: 'Table',
    apiVersion: 'meta.k8s.io/v1',
    metadata,
    columnDefinitions: columns ? columnDefinitions(resource) : null,
    rows: objects.map((object) => tableRow(resource, object, include, now)),
  };
}
