/**
 * Metadata of an object that a Project owns: deleting the Project deletes it. Used by the controllers and the
 * Kubernetes engine.
 */
import { API_VERSION, type OwnerReference } from '@slipway/crds';

export interface Owner {
  ref: string;
  uid: string;
}

export const ownerReference = ({ ref, uid }: Owner): OwnerReference => ({
  apiVersion: API_VERSION,
  kind: 'Project',
  name: ref,
  uid,
  controller: true,
  blockOwnerDeletion: true,
});
