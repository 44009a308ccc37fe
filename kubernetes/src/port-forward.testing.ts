/** Connects tests to pods through the API server, as `kubectl port-forward` does. */
import { KubeConfig, PortForward } from '@kubernetes/client-node';

export type { PortForward };

/** Creates a forward that closes a refused connection, as a direct connection would be. */
export function portForwardBy(kubeconfig: string): PortForward {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  return new PortForward(config, true);
}
