/** The kubeconfig of the real cluster that tests may use; undefined, and said in words, where there is none. */
export function clusterOfTests(): string | undefined {
  const kubeconfig = process.env.SLIPWAY_E2E_KUBECONFIG;
  if (!kubeconfig) console.log('# skipped: no cluster; SLIPWAY_E2E_KUBECONFIG names the kubeconfig of one');
  return kubeconfig || undefined;
}
