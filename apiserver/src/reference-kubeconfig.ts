/**
 * For tests only: the kubeconfig of the real kube-apiserver that scripts/test.mjs found for `*.cluster.test.ts`.
 * Without one, logs a line and returns undefined.
 */
export function referenceKubeconfig(): string | undefined {
  const { SLIPWAY_E2E_KUBECONFIG: kubeconfig } = process.env;
  if (kubeconfig) return kubeconfig;
  console.log('# skipped: no real kube-apiserver; SLIPWAY_E2E_KUBECONFIG names the kubeconfig of one');
  return undefined;
}
