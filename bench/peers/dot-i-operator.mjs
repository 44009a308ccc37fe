/** @dot-i/k8s-operator at work, as its README shows it. In, over IPC: how many widgets to bring up to date. Out: how long that took. */
import dotI from '@dot-i/k8s-operator';

const { default: Operator, ResourceEventType } = dotI;

class WidgetOperator extends Operator {
  constructor(count, onDone) {
    super({ debug() {}, info() {}, warn: console.error, error: console.error });
    this.left = count;
    this.onDone = onDone;
  }

  async init() {
    await this.watchResource('bench.slipway.dev', 'v1', 'widgets', (event) => this.reconcile(event), 'slipway-bench');
  }

  async reconcile({ type, object, meta }) {
    if (type === ResourceEventType.Deleted) return;
    const { generation } = object.metadata;
    if (object.status?.observedGeneration === generation) return;
    const written = await this.setResourceStatus(meta, { observedGeneration: generation });
    if (written && --this.left === 0) this.onDone();
  }
}

process.once('message', async ({ count }) => {
  const begin = performance.now();
  const operator = new WidgetOperator(count, () => process.send({ milliseconds: performance.now() - begin }));
  await operator.start();
});
process.on('disconnect', () => process.exit());
process.send({ ready: true });
