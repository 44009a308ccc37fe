import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type EnvTarget, targetsOf, variablesFor, variablesOf, withTargets } from './env-targets.js';

const VARIABLES = { BOTH: '1', BUILD: '2', RUNTIME: '3' };
const TARGETS = new Map<string, EnvTarget>([
  ['BUILD', 'build'],
  ['RUNTIME', 'runtime'],
  ['UNSET', 'build'],
]);

test('a build gets variables with the target build or all, and a running program runtime or all', () => {
  const content = withTargets(VARIABLES, TARGETS);
  assert.equal(variablesFor('build', content), { BOTH: '1', BUILD: '2' });
  assert.equal(variablesFor('runtime', content), { BOTH: '1', RUNTIME: '3' });
  assert.equal(variablesOf(content), VARIABLES);
  assert.equal(Object.fromEntries(targetsOf(content)), { BOTH: 'all', BUILD: 'build', RUNTIME: 'runtime' });
});

test('variables of an earlier release have the target all, and the Secret is written unchanged', () => {
  for (const program of ['build', 'runtime'] as const) assert.equal(variablesFor(program, VARIABLES), VARIABLES);
  assert.equal(withTargets(VARIABLES, targetsOf(VARIABLES)), VARIABLES);
});

test('variables may have the names of inherited members of objects', () => {
  const variables = JSON.parse('{"__proto__":"1","constructor":"2"}') as Record<string, string>;
  const content = withTargets(variables, new Map([['__proto__', 'runtime']]));
  assert.equal(Object.entries(variablesFor('build', content)), [['constructor', '2']]);
  assert.equal(Object.entries(variablesFor('runtime', content)), Object.entries(variables));
});

test('lines of targets may have spaces around them, and lines with an unknown target are ignored', () => {
  const content = { A: '1', B: '2', '.targets': ' A = build \r\nB=somewhere\n=build\n\nC=runtime' };
  assert.equal(Object.fromEntries(targetsOf(content)), { A: 'build', B: 'all' });
});

test.run();
