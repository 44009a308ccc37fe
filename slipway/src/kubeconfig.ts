import { stringify } from 'yaml';

/** A kubeconfig of one cluster and one user, as kubectl and client libraries read it. */
export function kubeconfig(server: string, certificateAuthority: string, user: string, token: string): string {
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'slipway',
    clusters: [
      {
        name: 'slipway',
        cluster: { server, 'certificate-authority-data': Buffer.from(certificateAuthority).toString('base64') },
      },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name: 'slipway', context: { cluster: 'slipway', user } }],
  });
}
