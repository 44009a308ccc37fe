/**
 * Metadata of every object of a project on a cluster: its labels, and the Project as its owner, so that both are
 * deleted together.
 */
import { LABEL_MANAGED_BY, LABEL_PART, LABEL_PROJECT, MANAGED_BY, namespaceOf } from '@slipway/installation';
import { type Owner, ownerReference } from '../../runtime/owner-reference.js';
import type { DesiredObject } from './children/children.js';

export const labelsOf = (ref: string, component: string): Record<string, string> => ({
  [LABEL_PROJECT]: ref,
  [LABEL_PART]: component,
  'app.kubernetes.io/name': component,
  'app.kubernetes.io/instance': ref,
  'app.kubernetes.io/component': component,
  'app.kubernetes.io/part-of': 'slipway',
  [LABEL_MANAGED_BY]: MANAGED_BY,
});

export interface ChildSpec {
  apiVersion: string;
  kind: string;
  name: string;
  /** The component of the object: `auth`, `isolation`. */
  component: string;
  /** Namespace of the object. Default: the project's own namespace. */
  namespace?: string;
  annotations?: Record<string, string>;
  /** Further members of the object, such as `spec` or `data`. */
  body: object;
}

/** Returns the desired object. */
export function childOf(owner: Owner, { apiVersion, kind, name, component, namespace, annotations, body }: ChildSpec) {
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      namespace: namespace ?? namespaceOf(owner.ref),
      labels: labelsOf(owner.ref, component),
      ...(annotations && Object.keys(annotations).length > 0 ? { annotations } : {}),
      ownerReferences: [ownerReference(owner)],
    },
    ...body,
  } as DesiredObject;
}
