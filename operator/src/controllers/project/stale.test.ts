/**
 * Tests the Project controller with an outdated cache and a real Kubernetes API. The engine only counts the databases
 * that the controller requests.
 */
import { API_VERSION, FINALIZER, type Project } from '@slipway/crds';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestKubernetes, type TestKubernetes } from '../../testing.js';
import { projectTypes } from '../../types/index.js';
import type { ReconcilerDeps } from './context.js';
import { reconcileProject } from './reconcile.js';
import { PROJECTS, projectPath } from './resources.js';

const test = suite<{ kubernetes: TestKubernetes }>('an outdated cache');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
});

test.after(async ({ kubernetes }) => {
  await kubernetes.close();
});

for (const [state, isGone] of [
  ['gone', true],
  ['being deleted', false],
] as const) {
  test(`no database is created for a Project that is ${state} although the cache has its former state`, async ({
    kubernetes,
  }) => {
    const { client } = kubernetes;
    const name = isGone ? 'gone' : 'leaving';
    const project = await client.create<Project>(PROJECTS, {
      apiVersion: API_VERSION,
      kind: 'Project',
      metadata: { name, finalizers: [FINALIZER] },
      spec: { owner: 'ann@example.com' },
    } as Project);
    await client.delete(projectPath(name));
    if (isGone) await client.patch(projectPath(name), { metadata: { finalizers: [] } });
    let made = 0;
    const ready = { state: 'ready', value: undefined } as const;
    const capabilities = {
      isolation: { ensure: async () => ready },
      databases: {
        addressOf: () => ({ host: 'db', port: 5432, publicAddress: 'db:5432' }),
        recordedId: async () => undefined,
        ensure: async () => {
          made++;
          return ready;
        },
      },
      services: { ensure: async () => ({ outcome: ready, parts: [] }) },
    };
    const nothing = { get: () => undefined, find: () => [], learn: () => undefined };
    const deps = {
      client,
      capabilities,
      types: projectTypes,
      places: { publicUrl: 'http://localhost:4000' },
      projects: { ...nothing, get: () => project },
      statuses: { write: async () => project },
      namespaces: nothing,
      secrets: nothing,
      copies: nothing,
      events: { record: () => undefined },
      log: pino({ level: 'silent' }),
      projectUrl: () => 'http://localhost:4000/p/x',
      now: () => new Date(),
    } as unknown as ReconcilerDeps;
    const outcome = await reconcileProject(deps, name);
    assert.is(outcome.kind, 'retry');
    assert.is(made, 0);
  });
}

test.run();
