/** The pod spec that all pods of the platform share: no rights, a read-only root file system, spread over nodes. */
import type { V1Container, V1PodSpec, V1Volume, V1VolumeMount } from '@slipway/kubernetes/models.js';
import { selectorOf } from './names.js';

export const TMP: { volume: V1Volume; mount: V1VolumeMount } = {
  volume: { name: 'tmp', emptyDir: { sizeLimit: '256Mi' } },
  mount: { name: 'tmp', mountPath: '/tmp' },
};

export const containerSecurity: NonNullable<V1Container['securityContext']> = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
};

/** `user`: user id of the image. Mounted files are readable for its group. */
export const podSecurity = (user: number): NonNullable<V1PodSpec['securityContext']> => ({
  runAsNonRoot: true,
  runAsUser: user,
  runAsGroup: user,
  fsGroup: user,
  fsGroupChangePolicy: 'OnRootMismatch',
  seccompProfile: { type: 'RuntimeDefault' },
});

/** No two pods share a node while another node has room. */
export const spread = (name: string): NonNullable<V1PodSpec['topologySpreadConstraints']> => [
  {
    maxSkew: 1,
    topologyKey: 'kubernetes.io/hostname',
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector: { matchLabels: selectorOf(name) },
  },
];
