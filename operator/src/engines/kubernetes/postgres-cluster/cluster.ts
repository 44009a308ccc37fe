/** A request for a Postgres cluster, independent of how it is run. */
import { LABEL_PROJECT, type Site } from '@slipway/installation';
import type { DesiredObject } from '../children/children.js';
import { metadataOf, metadataOfKept, type Place } from './place.js';

export interface ClusterRequest {
  place: Place;
  size: Site['sharedDatabase'];
  /** True if its servers are stopped and its volumes stay. */
  suspended: boolean;
  password: string;
  site: Pick<Site, 'images' | 'storageClass'>;
}

export const superuserSecretName = ({ name }: Place) => `${name}-superuser`;

/** Returns the `metadata` of a Secret. A Secret of a shared cluster also has the label by which Secrets are watched. */
export function watchedSecret(place: Place, name: string) {
  return watched(metadataOf(place, name));
}

const watched = <Metadata extends { labels: Record<string, string> }>(metadata: Metadata) => ({
  ...metadata,
  labels: { [LABEL_PROJECT]: '', ...metadata.labels },
});

/** Returns the superuser's Secret in the form that CloudNativePG documents. */
export function superuserSecret({ place, password }: ClusterRequest, username: string): DesiredObject {
  const text = (value: string) => Buffer.from(value).toString('base64');
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: watched(metadataOfKept(place, superuserSecretName(place))),
    type: 'kubernetes.io/basic-auth',
    data: { username: text(username), password: text(password) },
  } as DesiredObject;
}
