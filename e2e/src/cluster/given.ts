/**
 * The cluster that scripts/test.mjs found for the tests that need a cluster. If it found none, these tests are skipped
 * with a message.
 */
export interface GivenCluster {
  kubeconfig: string;
  overlay: string;
}

/** True if the test runner has installed Slipway for many files. These files then neither install nor uninstall it. */
export const isInstalledForAll = (): boolean => process.env.SLIPWAY_E2E_INSTALLED !== undefined;

export function givenCluster(): GivenCluster | undefined {
  const { SLIPWAY_E2E_KUBECONFIG: kubeconfig, SLIPWAY_E2E_OVERLAY: overlay = 'test' } = process.env;
  if (kubeconfig) return { kubeconfig, overlay };
  console.log('# skipped: no cluster; SLIPWAY_E2E_KUBECONFIG names one for the tests to install Slipway on');
  return undefined;
}
