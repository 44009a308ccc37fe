/** A Postgres cluster, however it is run. */
import { LABEL_PROJECT, type Site } from '@slipway/crds';
import type { DesiredObject } from '../children/children.js';
import { metadataOf, metadataOfKept, type Place } from './place.js';

export interface ClusterRequest {
  place: Place;
  size: Site['sharedDatabase'];
  /** Its servers are ended, its volumes stay. */
  suspended: boolean;
  password: string;
  site: Pick<Site, 'images' | 'storageClass'>;
}

export const superuserSecretName = ({ name }: Place) => `${name}-superuser`;

/** `metadata` of a Secret: one that projects share has the label as well, by which Secrets are watched. */
export function watchedSecret(place: Place, name: string) {
  return watched(metadataOf(place, name));
}

const watched = <Metadata extends { labels: Record<string, string> }>(metadata: Metadata) => ({
  ...metadata,
  labels: { [LABEL_PROJECT]: '', ...metadata.labels },
});

/** In the form that CloudNativePG documents for it. */
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
