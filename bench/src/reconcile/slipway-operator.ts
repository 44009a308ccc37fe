/** Slipway's runtime at work, in a process of its own. In, over IPC: how many widgets to bring up to date. Out: how long that took. */
import { KubeConfig } from '@kubernetes/client-node';
import { Controller, type Outcome } from '@slipway/operator/runtime/controller.js';
import { Informer } from '@slipway/operator/runtime/informer.js';
import { KubeClient } from '@slipway/operator/runtime/kube.js';
import { Metrics } from '@slipway/operator/runtime/metrics.js';
import { WorkQueue } from '@slipway/operator/runtime/work-queue.js';
import { pino } from 'pino';
import { isObserved, NAMESPACE, WIDGETS_PATH, type Widget } from './resource.js';

const WORKERS = 16;

process.once('message', async ({ count }: { count: number }) => {
  const begin = performance.now();
  const config = new KubeConfig();
  config.loadFromDefault();
  const client = await KubeClient.connect(config);
  const log = pino({ level: 'error' });
  const metrics = new Metrics();
  const queue = new WorkQueue({ firstMs: 100, maxMs: 10_000 }, metrics.queue('widgets'));
  const informer = new Informer<Widget>({ client, resource: 'widgets', path: WIDGETS_PATH, metrics, log });
  informer.onChange(({ after }) => after && queue.add(after.metadata.name));
  let written = 0;
  const reconcile = async (name: string): Promise<Outcome> => {
    const widget = informer.get(name, NAMESPACE);
    if (widget && !isObserved(widget)) {
      const status = { observedGeneration: widget.metadata.generation };
      const { resourceVersion } = widget.metadata;
      informer.learn(await client.patch(`${WIDGETS_PATH}/${name}/status`, { metadata: { resourceVersion }, status }));
      if (++written === count) process.send?.({ milliseconds: performance.now() - begin });
    }
    return { kind: 'done' };
  };
  new Controller({ queue, reconcile, workers: WORKERS, metrics: metrics.controller('widgets'), log }).start();
  await informer.start();
});
process.on('disconnect', () => process.exit());
process.send?.({ ready: true });
