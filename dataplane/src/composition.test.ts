import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { listenerOf } from './composition.js';
import type { Service } from './services/service.js';
import { tenantWithoutDatabase } from './testing/tenant.js';

/** Service that records what it is notified of. */
const recording = (name: string, calls: string[]): Service => ({
  handle: async () => undefined,
  change: ({ ref }) => void calls.push(`${name} change ${ref}`),
  forget: async (ref) => void calls.push(`${name} forget ${ref}`),
  close: async () => undefined,
});

test('a service is not notified of a change of a project on its own machine', () => {
  const calls: string[] = [];
  const machines = { rest: recording('machine', calls) };
  const listener = listenerOf({ rest: recording('pooled', calls) }, pino({ level: 'silent' }), { machines });
  listener.onChange(tenantWithoutDatabase('pooled'));
  listener.onChange(tenantWithoutDatabase('far', { upstream: 'machine' }));
  assert.equal(calls, ['pooled change pooled', 'machine change far']);
});

test('the services here and those of machines release a project', () => {
  const calls: string[] = [];
  const machines = { rest: recording('machine', calls) };
  listenerOf({ rest: recording('pooled', calls) }, pino({ level: 'silent' }), { machines }).onForget('far');
  assert.equal(calls, ['pooled forget far', 'machine forget far']);
});

test.run();
