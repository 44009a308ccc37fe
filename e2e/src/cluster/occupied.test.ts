import { DATA_NAMESPACE, PROGRAMS } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Found, refusal } from './occupied.js';

const PATH = '/home/someone/.kube/config';
const objects = [PROGRAMS.operator, PROGRAMS.api, PROGRAMS.dataplane].map((name) => `deployment.apps/${name}`);
const NOTHING: Found = { annotations: {}, objects: [], projects: [], dataNamespace: false };

test('a Slipway that somebody installed is not overwritten: the refusal names it, and tells what to do', () => {
  const said = refusal(PATH, { ...NOTHING, objects: ['deployment.apps/their-own', ...objects] }) ?? '';
  for (const words of [PATH, objects.join(', '), 'overlays/test', 'KUBECONFIG'])
    assert.ok(said.includes(words), `${said} names ${words}`);
  assert.not.match(said, /their-own/);
});

const LEFT: Record<string, [Partial<Found>, string]> = {
  'its projects': [{ projects: ['first', 'second'] }, '2 projects, the first is first'],
  'its databases': [{ dataNamespace: true }, DATA_NAMESPACE],
  'its Postgres': [{ objects: [`statefulset.apps/${PROGRAMS.postgres}`] }, PROGRAMS.postgres],
  'its keys': [{ objects: [`secret/${PROGRAMS.api}`] }, `secret/${PROGRAMS.api}`],
  'a volume': [{ objects: ['persistentvolumeclaim/data-theirs-0'] }, 'data-theirs-0'],
};
for (const [what, [left, named]] of Object.entries(LEFT)) {
  test(`of a Slipway whose programs are away, ${what} are not deleted, and who says that they may be is refused no more`, () => {
    for (const annotations of [{}, undefined]) {
      const found = { ...NOTHING, ...left, annotations };
      const said = refusal(PATH, found) ?? '';
      assert.ok(said.includes(named), `${said} names ${named}`);
      assert.is(said.includes('kubectl create namespace slipway-system &&'), annotations === undefined);
      const [, annotation = '', value = ''] = said.match(/kubectl annotate namespace slipway-system (\S+)=(\S+)/) ?? [];
      assert.is(refusal(PATH, { ...found, annotations: { [annotation]: value } }), undefined);
    }
  });
}

const FREE: Record<string, Found> = {
  'a cluster without our namespaces': { ...NOTHING, annotations: undefined },
  'an empty namespace': NOTHING,
  'a namespace with what is not ours': { ...NOTHING, objects: ['deployment.apps/another', 'secret/another'] },
  'a Slipway that tests left behind': {
    annotations: { 'slipway.dev/made-by': 'tests' },
    objects,
    projects: ['first'],
    dataNamespace: true,
  },
};
for (const [what, found] of Object.entries(FREE)) {
  test(`${what} is no reason to refuse`, () => assert.is(refusal(PATH, found), undefined));
}

test('a mark that says something else is none', () => {
  assert.ok(refusal(PATH, { ...NOTHING, annotations: { 'slipway.dev/made-by': 'platform-team' }, objects }));
});

test.run();
