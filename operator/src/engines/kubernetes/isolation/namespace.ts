/**
 * The labels and annotations of a project's namespace. Pure. Because of the labels, the API server rejects pods that
 * could harm others.
 */
import { ANNOTATION_ADDRESS, LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf } from '@slipway/installation';
import { type Owner, ownerReference } from '../../../runtime/owner-reference.js';
import type { DesiredObject } from '../children/children.js';

const POD_SECURITY = Object.fromEntries(
  ['enforce', 'audit', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
);

/**
 * Returns the namespace with its labels and annotations. `databaseHost` is the address of the project's database, which
 * stays in the namespace even if the Secret with the address is deleted.
 */
export const markedNamespace = (
  { retain, ...owner }: Owner & { retain: boolean },
  databaseHost: string | undefined,
): DesiredObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: {
    name: namespaceOf(owner.ref),
    labels: { [LABEL_PROJECT]: owner.ref, [LABEL_MANAGED_BY]: MANAGED_BY, ...POD_SECURITY },
    ...(databaseHost === undefined ? {} : { annotations: { [ANNOTATION_ADDRESS]: databaseHost } }),
    ...(retain ? {} : { ownerReferences: [ownerReference(owner)] }),
  },
});
