/** Tests when a Project is reconciled again after a reconcile. */
import type { Project, ProjectStatus } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { projectTypes } from '../../types/index.js';
import type { ReconcilerDeps } from './context.js';
import { outcomeOf, reconcileProject } from './reconcile.js';

test('a project with an unavailable type is not reconciled until it changes', async () => {
  let status: ProjectStatus | undefined;
  const project = { metadata: { name: 'vm' }, spec: { owner: 'ann@example.com', type: 'dedicated' } };
  const deps = {
    types: projectTypes,
    places: { publicUrl: 'http://localhost:4000' },
    projects: { get: () => project, find: () => [] },
    statuses: { write: async (_: Project, written: ProjectStatus) => void (status = written) },
    events: { record: () => undefined },
    now: () => new Date(),
  } as unknown as ReconcilerDeps;
  assert.equal(await reconcileProject(deps, 'vm'), { kind: 'done' });
  assert.is(status?.phase, 'error');
});

test('a part in progress that can wait, such as a certificate, delays no other part', () => {
  const part = (lookAgainMs: number, advisory = false) => ({
    condition: 'x',
    outcome: { state: 'progressing', message: 'in progress', lookAgainMs } as const,
    advisory,
  });
  assert.equal(outcomeOf([part(180_000, true), part(500), part(2_000, true)]), { kind: 'again', afterMs: 500 });
});

test.run();
