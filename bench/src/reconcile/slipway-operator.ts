/**
 * An operator on Slipway's runtime, in a process of its own. In, over IPC: the number of widgets to handle, again for
 * each round, and whether to write their status or only to count them. Out: a message when that number is handled.
 */
import { Informer, KubeClient, loadKubeConfig } from '@slipway/kubernetes';
import { Controller, type Outcome } from '@slipway/operator/runtime/controller.js';
import { Metrics } from '@slipway/operator/runtime/metrics.js';
import { WorkQueue } from '@slipway/operator/runtime/work-queue.js';
import { pino } from 'pino';
import { isObserved, NAMESPACE, WIDGETS_PATH, type Widget } from './resource.js';
import { Tally, type Task } from './tally.js';

const WORKERS = 16;

const tally = new Tally();
process.once('message', async ({ writes }: Task) => {
  const client = await KubeClient.connect(await loadKubeConfig(process.env.KUBECONFIG));
  const log = pino({ level: 'error' });
  const metrics = new Metrics();
  const queue = new WorkQueue({ firstMs: 100, maxMs: 10_000 }, metrics.queue('widgets'));
  const informer = new Informer<Widget>({ client, resource: 'widgets', path: WIDGETS_PATH, metrics, log });
  informer.onChange(({ after }) => after && queue.add(after.metadata.name));
  const reconcile = async (name: string): Promise<Outcome> => {
    const widget = informer.get(name, NAMESPACE);
    if (!writes) tally.handled();
    else if (widget && !isObserved(widget)) {
      const status = { observedGeneration: widget.metadata.generation };
      const { resourceVersion } = widget.metadata;
      informer.learn(await client.patch(`${WIDGETS_PATH}/${name}/status`, { metadata: { resourceVersion }, status }));
      tally.handled();
    }
    return { kind: 'done' };
  };
  new Controller({ queue, reconcile, workers: WORKERS, metrics: metrics.controller('widgets'), log }).start();
  await informer.start();
});
