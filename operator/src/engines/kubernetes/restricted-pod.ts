/**
 * The pod spec that all pods of projects share: no rights, no root, and only mounts are writable. In: the account, and
 * the grace period. Out: parts of a pod's spec that pod security admits as `restricted`. Pure. Used by services and
 * Postgres.
 */
import type { Site } from '@slipway/installation';

export interface RestrictedPod {
  /**
   * The user id and group id that the image is made for. They must be numbers: Kubernetes can't check that a user name
   * is not root.
   */
  account: number;
  graceSeconds: number;
  images: Site['images'];
}

export function restrictedPod({ account, graceSeconds, images: { pullSecrets } }: RestrictedPod) {
  return {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: graceSeconds,
    // Also sets the API server's defaults, so that a change of them is detected.
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
