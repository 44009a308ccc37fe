import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { EdgeFunction, type FunctionSurroundings } from './function.js';
import { Unavailable } from './isolate.js';
import { deployShares, LIMITS } from './limits.js';
import { Shares } from './shares.js';

const refusalOf = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    if (error instanceof Unavailable) return error;
    throw error;
  }
  throw new Error('nothing was refused');
};

test('a project with the largest debt of processor time may call again within two minutes', () => {
  const limits = { ...LIMITS, coresOfProject: 0.25, coresOfAccount: 0.5 };
  const shares = new Shares(
    limits,
    () => undefined,
    () => 0,
  );
  assert.ok(shares.spend('shop', 10 * 60 * 1_000));
  assert.ok(shares.spend('shop', 10 * 60 * 1_000));
  const { code, retryAfterSeconds } = refusalOf(() => shares.check('shop'));
  assert.equal([code, retryAfterSeconds], ['PROJECT_SHARE', 120]);
});

test('a call of a project without processor time starts no isolate', () => {
  let started = 0;
  const refusal = new Unavailable('PROJECT_SHARE', 'used up', 1);
  const surroundings = {
    limits: LIMITS,
    admit: () => {
      started += 1;
      throw refusal;
    },
    checkShare: () => {
      throw refusal;
    },
    environment: () => ({}),
  };
  const edgeFunction = new EdgeFunction(
    'shop',
    'hello',
    { version: 1, verifyJwt: true, digest: '' },
    surroundings as unknown as FunctionSurroundings,
  );
  assert.is(
    refusalOf(() => edgeFunction.acquire()),
    refusal,
  );
  assert.is(started, 0);
});

test('an account leaves one concurrent deploy to other accounts, even on a machine with little memory', () => {
  for (const megabytes of [256, 1_024, 2_048, 65_536]) {
    const { deploys, deploysOfAccount, deploysOfProject } = deployShares(megabytes);
    assert.ok(deploysOfAccount < deploys && deploysOfProject <= deploysOfAccount);
  }
});

test.run();
