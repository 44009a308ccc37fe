/**
 * An operator of @dot-i/k8s-operator, written as its README shows. In, over IPC: the number of widgets to reconcile,
 * again for each round. Out: a message when that number of widgets is reconciled.
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
