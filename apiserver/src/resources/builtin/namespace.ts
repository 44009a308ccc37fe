import type { KubeObject } from '../../objects.js';
import type { BuiltinKind } from '../builtin.js';
import { ageColumn, nameColumn } from '../columns.js';
import { ALL_VERBS } from '../resource.js';

/** Finalizer in a namespace's spec.finalizers. It is removed once the namespace is empty. */
export const NAMESPACE_FINALIZER = 'kubernetes';
const NAME_LABEL = 'kubernetes.io/metadata.name';

const phase = (object: KubeObject) => (object.status as { phase?: string } | undefined)?.phase ?? '';
export const namespaceFinalizers = (object: KubeObject) =>
  (object.spec as { finalizers?: string[] } | undefined)?.finalizers ?? [];

export const namespace: BuiltinKind = {
  kind: 'Namespace',
  shortNames: ['ns'],
  verbs: ALL_VERBS.filter((verb) => verb !== 'deletecollection'),
  subresources: ['status', 'finalize'],
  nameRule: 'label',
  columns: [
    nameColumn,
    { name: 'Status', type: 'string', description: 'The status of the namespace', cell: phase },
    ageColumn,
  ],
  strategy: {
    prepareCreate(object) {
      const others = namespaceFinalizers(object).filter((name) => name !== NAMESPACE_FINALIZER);
      object.spec = { finalizers: [...others, NAMESPACE_FINALIZER] };
      object.status = { phase: 'Active' };
      object.metadata.labels = { ...object.metadata.labels, [NAME_LABEL]: object.metadata.name };
    },
    prepareUpdate(object, old) {
      // Only the finalize subresource changes finalizers.
      object.spec = old.spec;
      object.metadata.labels = { ...object.metadata.labels, [NAME_LABEL]: object.metadata.name };
    },
    fieldNames: ['status.phase', 'name'],
    fields: (object) => ({ 'status.phase': phase(object), name: object.metadata.name }),
  },
};
