/** The fields that all stored objects have. A stored object is never changed: a write makes a new one. */
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

/** Returns a copy of JSON that may be changed. Strings, which may have megabytes, are shared: they are immutable. */
export function copy<T>(value: T): T {
  if (Array.isArray(value)) return value.map(copy) as T;
  if (typeof value !== 'object' || value === null) return value;
  const object: JsonObject = {};
  for (const [name, member] of Object.entries(value)) if (member !== undefined) define(object, name, copy(member));
  return object as T;
}

/** Sets a member. A member named __proto__ is set like any other. */
export function define(object: JsonObject, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value;
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** Formats a date like metav1.Time: whole seconds, UTC. */
export const timestamp = (date: Date) => `${date.toISOString().slice(0, 19)}Z`;
