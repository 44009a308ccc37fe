import { KubeError } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../testing.js';
import { Controller, type Outcome } from './controller.js';
import { Metrics } from './metrics.js';
import { WorkQueue } from './work-queue.js';

function controllerOf(reconcile: (key: string) => Promise<Outcome>, log = silentLog) {
  const metrics = new Metrics();
  const queue = new WorkQueue({ firstMs: 1, maxMs: 5 }, metrics.queue('test'));
  const controller = new Controller({
    queue,
    reconcile,
    workers: 2,
    metrics: metrics.controller('test'),
    log,
  });
  return { controller, queue, metrics };
}

test('a key is retried, and delays no other, when its reconcile throws a transient error', async () => {
  const tries = new Map<string, number>();
  const { controller, queue, metrics } = controllerOf(async (key) => {
    const count = (tries.get(key) ?? 0) + 1;
    tries.set(key, count);
    if (key.startsWith('bad') && count < 4) throw new KubeError(503, 'ServiceUnavailable', 'no', 'projects');
    return { kind: 'done' };
  });
  for (const key of ['bad1', 'bad2', 'bad3', 'good']) queue.add(key);
  controller.start();
  await until(() => ['bad1', 'bad2', 'bad3'].every((key) => tries.get(key) === 4), 'four tries of each');
  assert.is(tries.get('good'), 1);
  await controller.close();
  const text = await metrics.registry.metrics();
  assert.match(text, /slipway_reconcile_total\{controller="test",result="retry"\} 9/);
  assert.match(text, /slipway_reconcile_total\{controller="test",result="done"\} 4/);
});

test('a key is retried, and the error’s stack logged, when its reconcile throws an unexpected error', async () => {
  const lines: string[] = [];
  const log = pino({}, { write: (line: string) => lines.push(line) });
  let tries = 0;
  const reconcile = async (): Promise<Outcome> => {
    tries += 1;
    if (tries === 1) throw new TypeError('nobody expects this');
    if (tries === 2) JSON.parse('hunter2');
    return { kind: 'done' };
  };
  const { controller, queue, metrics } = controllerOf(reconcile, log);
  queue.add('a');
  controller.start();
  await until(() => tries === 3, 'the third try');
  await controller.close();
  const text = await metrics.registry.metrics();
  assert.match(text, /slipway_reconcile_total\{controller="test",result="unexpected"\} 2/);
  assert.match(text, /slipway_reconcile_unexpected_errors_total\{controller="test",step="reconcile"\} 2/);
  assert.not.match(text, /slipway_queue_retries_total\{controller="test"\} [1-9]/);
  const [first, second] = lines.map((line) => JSON.parse(line));
  assert.is(first.msg, 'reconcile failed unexpectedly');
  assert.match(first.stack, /nobody expects this[\s\S]*controller\.test/);
  assert.match(second.stack, /^SyntaxError\n[\s\S]*controller\.test/);
  assert.not.match(second.stack, /hunter2/, 'a SyntaxError quotes the text that was parsed');
});

test('a key that requests another look gets it, and does not count as failed', async () => {
  let looks = 0;
  const { controller, queue } = controllerOf(async () => {
    looks += 1;
    return { kind: 'again', afterMs: 1 };
  });
  queue.add('a');
  controller.start();
  await until(() => looks >= 3, 'three looks');
  await controller.close();
});

test('close() of a controller waits for the running reconcile', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  let finished = false;
  const { controller, queue } = controllerOf(async () => {
    await promise;
    finished = true;
    return { kind: 'done' };
  });
  queue.add('a');
  controller.start();
  const closed = controller.close();
  resolve();
  await closed;
  assert.ok(finished);
});

test.run();
