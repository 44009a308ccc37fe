/**
 * Tests a new ref that already belongs to a project: one with a row in the platform database, or one just applied with
 * kubectl.
 */
import { randomLetters } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const refs: string[] = [];
const api = await startTestApi({ newRef: () => refs.shift() ?? randomLetters(20) });
test.after(() => api.close());

const made = async (token: string, name: string) => {
  const { status, body } = await api.call('POST', '/projects', { token, json: { name } });
  return { status, ref: body.ref as string };
};

test('a project gets another ref when its first one belongs to another project', async () => {
  const { token } = await register(api);
  const first = await made(token, 'first');
  refs.push(first.ref, 'free-ref');
  assert.equal(await made(token, 'second'), { status: 201, ref: 'free-ref' });
});

test('a project gets another ref when kubectl applied a Project with its first one', async () => {
  const { token, email } = await register(api);
  await api.operator.apply('applied', { owner: email });
  // The row of the applied Project is not written yet.
  await api.platform.query("delete from platform.projects where ref = 'applied'");
  refs.push('applied', 'free-again');
  assert.equal(await made(token, 'third'), { status: 201, ref: 'free-again' });
  assert.is((await api.operator.get('applied')).spec.owner, email);
});

test.run();
