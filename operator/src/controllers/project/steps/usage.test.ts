import type { Project } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Usage } from '../../../capabilities/index.js';
import { projectTypes } from '../../../types/index.js';
import type { Context } from '../context.js';
import type { Shown } from '../project-type.js';
import { Stages } from '../stages.js';
import { failuresOf, statusOf } from '../status.js';
import { DATABASE_HAS_ROOM, reportUsage } from './usage.js';

const MB = 1e6;
const condition = (type: string) => ({ type, status: 'True', reason: 'Healthy', message: '' }) as const;
const project: Project = {
  apiVersion: 'slipway.dev/v1alpha1',
  kind: 'Project',
  metadata: { name: 'shop', generation: 1, uid: 'u' },
  spec: { owner: 'owner@example.com' },
  status: { conditions: [{ ...condition('Ready'), lastTransitionTime: new Date(0).toISOString() }] },
};

/** Returns the Project after a look that measured `usage`. */
async function after(start: Project, usage: { database?: Usage; storage?: Usage }) {
  const capabilities = {
    databases: { usage: async () => usage.database },
    services: { storageUsage: async () => usage.storage },
  };
  const deps = { capabilities, types: projectTypes, projectUrl: () => 'http://shop.test', now: () => new Date(0) };
  const shown: Shown = { services: {} };
  const context = { project: start, deps, ref: 'shop' } as unknown as Context;
  const stages = new Stages();
  const run = () => reportUsage(context, { serviceRoleKey: 'key', shown });
  await stages.run({ usage: { condition: DATABASE_HAS_ROOM, advisory: true, run } });
  const { parts } = stages;
  return { events: failuresOf(start, parts), object: { ...start, status: statusOf(context, parts, { shown }) } };
}

const saidOf = ({ status }: Project, type: string) => {
  const condition = status?.conditions?.find((each) => each.type === type);
  return [condition?.status, condition?.reason];
};

test('a quota at 80 or 100 % is reported by a condition and an Event, and the project stays healthy', async () => {
  const low = { used: 399.2 * MB, limit: 500 * MB };
  const start = await after(project, { database: low, storage: { used: 0, limit: 1000 * MB } });
  assert.equal(start.object.status.usage, {
    database: { used: 400 * MB, limit: 500 * MB },
    storage: { used: 0, limit: 1000 * MB },
  });
  assert.equal(start.events, []);
  assert.equal(saidOf(start.object, 'DatabaseHasRoom'), ['True', 'Ready']);
  const high = await after(start.object, {
    database: { used: 400 * MB, limit: 500 * MB },
    storage: { used: 1000 * MB, limit: 1000 * MB },
  });
  assert.equal(saidOf(high.object, 'DatabaseHasRoom'), ['False', 'DatabaseNearlyFull']);
  assert.equal(saidOf(high.object, 'StorageHasRoom'), ['False', 'StorageFull']);
  assert.is(high.object.status.phase, 'healthy');
  assert.equal(
    high.events.map(({ reason, message }) => `${reason}: ${message}`),
    [
      'DatabaseNearlyFull: The database has 400 MB of the 500 MB of the plan (80 %). ' +
        'Delete data, or use a larger plan.',
      'StorageFull: The files in storage have 1000 MB of the 1000 MB of the plan (100 %). ' +
        'Delete data, or use a larger plan.',
    ],
  );
});

test('the condition of a database whose logins are shut says until when, also far below the plan’s quota', async () => {
  const shut = 'It kept growing: db_url is shut until 2026-01-05T09:00:00.000Z.';
  const { object } = await after(project, { database: { used: 1 * MB, limit: 500 * MB, shut } });
  assert.equal(saidOf(object, 'DatabaseHasRoom'), ['False', 'DatabaseFull']);
  const message = object.status?.conditions?.find(({ type }) => type === 'DatabaseHasRoom')?.message;
  assert.is(
    message,
    `The database has 1 MB of the 500 MB of the plan (0 %). Delete data, or use a larger plan. ${shut}`,
  );
  assert.equal(object.status.usage, { database: { used: 1 * MB, limit: 500 * MB } });
});

test('the last known figures of usage stay when the usage cannot be measured', async () => {
  const start = await after(project, { database: { used: 1 * MB, limit: 500 * MB } });
  const context = {
    project: start.object,
    deps: { types: projectTypes, projectUrl: () => '', now: () => new Date(0) },
    ref: 'shop',
  };
  assert.equal(statusOf(context as unknown as Context, [], { shown: {} }).usage, start.object.status.usage);
});

test.run();
