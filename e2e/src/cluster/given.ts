/** The cluster that scripts/test.mjs found for the tests that need one; without it they are skipped, in words. */
export interface GivenCluster {
  kubeconfig: string;
  overlay: string;
}

export function givenCluster(): GivenCluster | undefined {
  const { SLIPWAY_E2E_KUBECONFIG: kubeconfig, SLIPWAY_E2E_OVERLAY: overlay = 'test' } = process.env;
  if (kubeconfig) return { kubeconfig, overlay };
  console.log('# skipped: no cluster; SLIPWAY_E2E_KUBECONFIG names one for the tests to install Slipway on');
  return undefined;
}
