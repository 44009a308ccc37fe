/**
 * @dot-i/k8s-operator at work, as its README shows it. In, over IPC: how many widgets there are to bring up to date, first and each time
 * again. Out: a message each time when so many are.
 */
import dotI from '@dot-i/k8s-operator';

const { default: Operator, ResourceEventType } = dotI;

class WidgetOperator extends Operator {
  left = 0;

  async init() {
    await this.watchResource('bench.slipway.dev', 'v1', 'widgets', (event) => this.reconcile(event), 'slipway-bench');
  }

  async reconcile({ type, object, meta }) {
    if (type === ResourceEventType.Deleted) return;
    const { generation } = object.metadata;
    if (object.status?.observedGeneration === generation) return;
    // A PUT has the whole status.
    const written = await this.setResourceStatus(meta, { ...object.status, observedGeneration: generation });
    if (written && --this.left === 0) process.send('done');
  }
}

let operator;
process.on('message', async ({ count }) => {
  const begun = operator !== undefined;
  operator ??= new WidgetOperator({ debug() {}, info() {}, warn: console.error, error: console.error });
  operator.left += count;
  if (!begun) await operator.start();
});
process.on('disconnect', () => process.exit());
process.send('ready');
