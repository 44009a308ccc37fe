/**
 * The pod spec that all pods of projects share: no rights, no root, nothing writable but mounts. In: the account, and
 * the grace period. Out: parts of a pod's spec that pod security admits as `restricted`. Pure; used by services and
 * Postgres alike.
 */
import type { Site } from '@slipway/crds';

export interface RestrictedPod {
  /** The user and the group that its image is made for, by number: a user by name could not be told from root. */
  account: number;
  graceSeconds: number;
  images: Site['images'];
}

export function restrictedPod({ account, graceSeconds, images: { pullSecrets } }: RestrictedPod) {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSeconds,
    // What the API server fills in is named: only so a change of it is seen.
    dnsPolicy: 'ClusterFirst',
    restartPolicy: 'Always',
    schedulerName: 'default-scheduler',
    securityContext: {
      runAsNonRoot: true,
      runAsUser: account,
      runAsGroup: account,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    ...(pullSecrets.length > 0 ? { imagePullSecrets: pullSecrets.map((name) => ({ name })) } : {}),
  };
}

export const restrictedContainer = ({ pullPolicy }: Site['images']) => ({
  imagePullPolicy: pullPolicy,
  terminationMessagePath: '/dev/termination-log',
  terminationMessagePolicy: 'File',
  securityContext: {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  },
});
