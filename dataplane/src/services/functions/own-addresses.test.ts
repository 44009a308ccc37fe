import { NOT_PUBLIC } from '@slipway/program';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { OwnAddresses } from './own-addresses.js';

/** Returns each of `answers` once, then repeats the last one. */
async function afterLooks(answers: (string[] | Error)[]) {
  let looks = 0;
  let changes = 0;
  const read = () => {
    const answer = answers[Math.min(looks++, answers.length - 1)] as string[] | Error;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const own = new OwnAddresses(read, NOT_PUBLIC, () => changes++, 5);
  await until(() => looks > answers.length, 'one look after the last answer');
  own.close();
  return { denied: own.denied, changes };
}

test('the list of own addresses is unchanged when the interfaces cannot be read', async () => {
  const refusal = new Error('uv_interface_addresses returned Unknown system error 24');
  assert.equal(await afterLooks([['8.0.0.1'], refusal]), { denied: ['8.0.0.1'], changes: 0 });
  assert.equal((await afterLooks([['8.0.0.1'], refusal, ['8.0.0.1', '8.0.0.2']])).changes, 1);
});

test('the list of own addresses denies a new address, and reports it once', async () => {
  const { denied, changes } = await afterLooks([['8.0.0.1'], ['8.0.0.1', 'fd00::2']]);
  assert.equal([[...denied].sort(), changes], [['8.0.0.1', '[fd00::2]'], 1]);
});

test('the list of own addresses still denies a removed address, and does not report the removal', async () => {
  const { denied, changes } = await afterLooks([['8.0.0.1', '8.0.0.2'], ['8.0.0.1']]);
  assert.equal([[...denied].sort(), changes], [['8.0.0.1', '8.0.0.2'], 0]);
});

test('the list of own addresses drops the oldest removed addresses, and never a present one', async () => {
  const many = (from: number) => Array.from({ length: 200 }, (_, n) => `8.${from}.0.${n}`);
  const { denied } = await afterLooks([many(0), many(1), many(2)]);
  assert.is(denied.length, 256);
  assert.ok(many(2).every((address) => denied.includes(address)));
});

test('the list of own addresses reports no new address within a denied range', async () => {
  const { denied, changes } = await afterLooks([['8.0.0.1'], ['8.0.0.1', '169.254.7.7', '10.1.2.3', '192.168.0.9']]);
  assert.equal([denied, changes], [['8.0.0.1'], 0]);
});

test.run();
