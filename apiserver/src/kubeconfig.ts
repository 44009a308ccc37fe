/** Returns the kubeconfig for this API server as JSON, which is valid YAML. */
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
