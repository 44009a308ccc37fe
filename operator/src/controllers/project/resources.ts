/** The Kubernetes objects that this controller reads and writes, and their paths. */

import { API_VERSION } from '@slipway/crds';
import { LABEL_MANAGED_BY, LABEL_PROJECT, MANAGED_BY, namespaceOf } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';

export interface Secret extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

export interface Namespace extends KubeObject {
  status?: { phase?: string };
}

export const PROJECTS = `/apis/${API_VERSION}/projects`;
export const NAMESPACES = '/api/v1/namespaces';
export const projectPath = (ref: string) => `${PROJECTS}/${ref}`;
export const namespacePath = (ref: string) => `${NAMESPACES}/${namespaceOf(ref)}`;
export const secretsPath = (ref: string) => `${namespacePath(ref)}/secrets`;

export const ourLabels = (ref: string) => ({ [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY });

const mapValues = (data: Record<string, string>, change: (value: string) => string) =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, change(value)]));

/** Returns the values of a Secret as text. */
export const plainText = (secret: Secret | undefined) =>
  mapValues(secret?.data ?? {}, (value) => Buffer.from(value, 'base64').toString('utf8'));

/** Returns text as the values of a Secret, without undefined values. */
export const secretData = (values: Record<string, string | undefined>) => {
  const present = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return mapValues(Object.fromEntries(present), (value) => Buffer.from(value).toString('base64'));
};
