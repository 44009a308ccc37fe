import { DATA_NAMESPACE, PROGRAMS } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Found, refusal } from './occupied.js';

const PATH = '/home/someone/.kube/config';
const objects = [PROGRAMS.operator, PROGRAMS.api, PROGRAMS.dataplane].map((name) => `deployment.apps/${name}`);
const NOTHING: Found = { annotations: {}, objects: [], projects: [], dataNamespace: false };

test('the error names the installed Slipway and the fix if somebody else installed it', () => {
  const message = refusal(PATH, { ...NOTHING, objects: ['deployment.apps/their-own', ...objects] }) ?? '';
  for (const words of [PATH, objects.join(', '), 'overlays/test', 'KUBECONFIG'])
    assert.ok(message.includes(words), `${message} names ${words}`);
  assert.not.match(message, /their-own/);
});

const LEFT: Record<string, [Partial<Found>, string]> = {
  'its projects': [{ projects: ['first', 'second'] }, '2 projects, the first is first'],
  'its databases': [{ dataNamespace: true }, DATA_NAMESPACE],
  'its Postgres': [{ objects: [`statefulset.apps/${PROGRAMS.postgres}`] }, PROGRAMS.postgres],
  'its keys': [{ objects: [`secret/${PROGRAMS.api}`] }, `secret/${PROGRAMS.api}`],
  'a volume': [{ objects: ['persistentvolumeclaim/data-theirs-0'] }, 'data-theirs-0'],
};
for (const [what, [left, named]] of Object.entries(LEFT)) {
  test(`${what} of a stopped Slipway are not deleted unless the caller confirms this`, () => {
    for (const annotations of [{}, undefined]) {
      const found = { ...NOTHING, ...left, annotations };
      const message = refusal(PATH, found) ?? '';
      assert.ok(message.includes(named), `${message} names ${named}`);
      assert.is(message.includes('kubectl create namespace slipway-system &&'), annotations === undefined);
      const [, annotation = '', value = ''] =
        message.match(/kubectl annotate namespace slipway-system (\S+)=(\S+)/) ?? [];
      assert.is(refusal(PATH, { ...found, annotations: { [annotation]: value } }), undefined);
    }
  });
}

const FREE: Record<string, Found> = {
  'a cluster without our namespaces': { ...NOTHING, annotations: undefined },
  'an empty namespace': NOTHING,
  'a namespace with foreign objects': { ...NOTHING, objects: ['deployment.apps/another', 'secret/another'] },
  'a Slipway that tests left behind': {
    annotations: { 'slipway.dev/made-by': 'tests' },
    objects,
    projects: ['first'],
    dataNamespace: true,
  },
};
for (const [what, found] of Object.entries(FREE)) {
  test(`${what} does not make a cluster count as occupied`, () => assert.is(refusal(PATH, found), undefined));
}

test('the mark of a test installation counts only if it has the expected value', () => {
  assert.ok(refusal(PATH, { ...NOTHING, annotations: { 'slipway.dev/made-by': 'platform-team' }, objects }));
});

test.run();
