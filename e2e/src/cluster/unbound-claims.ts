/**
 * Wakes the scheduler of Kubernetes. It may miss that a volume was bound while it checked the pod that waits for the
 * volume. Then it checks again only after five minutes. On a test cluster, where volumes are bound at once, a change of
 * the claim triggers a check.
 */
import { run } from './run.js';

const LOOK_MS = 10_000;
/** Milliseconds after which the scheduler counts as having missed something. Otherwise a pod waits for less time. */
const STUCK_MS = 15_000;

interface Pod {
  metadata: { namespace: string };
  spec: { volumes?: { persistentVolumeClaim?: { claimName: string } }[] };
  status: { conditions?: { type: string; status: string; message?: string; lastTransitionTime: string }[] };
}

/** Wakes the scheduler until the returned function is called. */
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
