import { stringify } from 'yaml';

/** Returns a kubeconfig with one cluster and one user, for kubectl and client libraries. */
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
