/** The kubeconfig of a server of ours: JSON, which is YAML too. */
export function kubeconfigOf({ url, ca, token }: { url: string; ca: string; token: string }): string {
  const name = 'slipway';
  return `${JSON.stringify(
    {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': name,
      clusters: [{ name, cluster: { server: url, 'certificate-authority-data': Buffer.from(ca).toString('base64') } }],
      users: [{ name, user: { token } }],
      contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    },
    null,
    2,
  )}\n`;
}
