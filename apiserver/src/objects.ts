/** The shape that every stored object shares. Stored objects are never changed in place: a write makes a new one. */
import type { JsonObject } from './schema/json-schema.js';

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

export interface ObjectMeta extends JsonObject {
  name: string;
  generateName?: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: JsonObject[];
}

export interface KubeObject extends JsonObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

/** A copy that may be changed: cheaper than structuredClone, and what is stored is JSON anyway. */
export const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

/** Formats a date as metav1.Time does: whole seconds, UTC. */
export const timestamp = (date: Date) => `${date.toISOString().slice(0, 19)}Z`;
