/** The marks on a project's namespace by which the API server refuses pods that could harm others. Pure. */
import { ANNOTATION_ADDRESS, LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf } from '@slipway/crds';
import { type Owner, ownerReference } from '../../../owner-reference.js';
import type { DesiredObject } from '../children/children.js';

const POD_SECURITY = Object.fromEntries(
  ['enforce', 'audit', 'warn'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
);

/** `databaseHost`: where its database is, for when the Secret that says so is deleted. */
export const markedNamespace = (
  { retain, ...owner }: Owner & { retain: boolean },
  databaseHost: string,
): DesiredObject => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: {
    name: namespaceOf(owner.ref),
    labels: { [LABEL_PROJECT]: owner.ref, [LABEL_MANAGED_BY]: MANAGED_BY, ...POD_SECURITY },
    annotations: { [ANNOTATION_ADDRESS]: databaseHost },
    ...(retain ? {} : { ownerReferences: [ownerReference(owner)] }),
  },
});
