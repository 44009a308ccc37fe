import { PROGRAMS } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { refusal, type SystemNamespace } from './occupied.js';

const PATH = '/home/someone/.kube/config';
const deployments = [PROGRAMS.operator, PROGRAMS.api, PROGRAMS.dataplane];

test('a Slipway that somebody installed is not overwritten: the refusal names it, and tells what to do', () => {
  const said = refusal(PATH, { annotations: {}, deployments: ['their-own', ...deployments] }) ?? '';
  for (const words of [PATH, 'slipway-operator, slipway-api, slipway-dataplane', 'overlays/test', 'KUBECONFIG'])
    assert.ok(said.includes(words), `${said} names ${words}`);
  assert.not.match(said, /their-own/);
});

test('who follows the refusal’s last advice is refused no more', () => {
  const said = refusal(PATH, { annotations: {}, deployments }) ?? '';
  const [, annotation = '', value = ''] = said.match(/kubectl annotate namespace slipway-system (\S+)=(\S+)/) ?? [];
  assert.is(refusal(PATH, { annotations: { [annotation]: value }, deployments }), undefined);
});

const FREE: Record<string, SystemNamespace> = {
  'an empty namespace': { annotations: {}, deployments: [''] },
  'a namespace with what is not ours': { annotations: {}, deployments: ['another'] },
  'a Slipway that tests left behind': { annotations: { 'slipway.dev/made-by': 'tests' }, deployments },
};
for (const [what, found] of Object.entries(FREE)) {
  test(`${what} is no reason to refuse`, () => assert.is(refusal(PATH, found), undefined));
}

test('a mark that says something else is none', () => {
  assert.ok(refusal(PATH, { annotations: { 'slipway.dev/made-by': 'platform-team' }, deployments }));
});

test.run();
