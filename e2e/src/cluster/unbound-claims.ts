/**
 * Kubernetes' scheduler may miss that a volume was bound while it looked at the pod that waits for it, and then looks
 * again only after five minutes. On a test cluster, whose volumes are bound at once, a change of the claim makes it
 * look.
 */
import { run } from './run.js';

const LOOK_MS = 10_000;
/** A pod for which the scheduler has not missed anything waits less long. */
const STUCK_MS = 15_000;

interface Pod {
  metadata: { namespace: string };
  spec: { volumes?: { persistentVolumeClaim?: { claimName: string } }[] };
  status: { conditions?: { type: string; status: string; message?: string; lastTransitionTime: string }[] };
}

/** Until what is returned is called. */
export function wakeSchedulerForClaims(kubeconfig: string): () => void {
  const kubectl = (...args: string[]) => run('kubectl', ['--kubeconfig', kubeconfig, ...args]);
  const look = async () => {
    const pending = await kubectl('get', 'pods', '-A', '--field-selector=status.phase=Pending', '-o', 'json');
    for (const { metadata, spec } of (JSON.parse(pending) as { items: Pod[] }).items.filter(isStuck)) {
      for (const { persistentVolumeClaim } of spec.volumes ?? []) {
        if (persistentVolumeClaim === undefined) continue;
        const at = `slipway.test/looked-at=${Date.now()}`;
        await kubectl('-n', metadata.namespace, 'annotate', 'pvc', persistentVolumeClaim.claimName, '--overwrite', at);
      }
    }
  };
  let timer: NodeJS.Timeout | undefined;
  let ended = false;
  const again = () => {
    // Tests kill the API server too.
    const next = () =>
      look()
        .catch(() => undefined)
        .finally(again);
    if (!ended) timer = setTimeout(() => void next(), LOOK_MS);
  };
  again();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

const isStuck = ({ status }: Pod) =>
  status.conditions?.some(
    ({ type, status, message, lastTransitionTime }) =>
      type === 'PodScheduled' &&
      status === 'False' &&
      message?.includes('unbound immediate PersistentVolumeClaims') &&
      Date.now() - Date.parse(lastTransitionTime) > STUCK_MS,
  );
