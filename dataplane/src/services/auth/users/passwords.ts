/**
 * Hashes and verifies passwords outside of the main thread. The number of concurrent hashes is limited, because each
 * takes tens of milliseconds of a core. New hashes are bcrypt; the argon2 hashes of migrated users can be verified too.
 */
import { argon2, randomBytes, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { promisify } from 'node:util';
import { hash as bcryptHash, verify as bcryptVerify } from '@node-rs/bcrypt';
import { ConcurrencyLimit } from '@slipway/program';
import { AuthError } from '../errors.js';

const COST = 10;
/** Limits of concurrent hashes, by project. */
const limit = new ConcurrencyLimit(
  { most: Math.max(1, availableParallelism() - 1), waiting: 1_000, waitingOfOne: 200, firstMayWait: true },
  () => new AuthError(429, 'over_request_rate_limit', 'Too many sign-ins at once; try again in a moment'),
);

/**
 * Hash of a random password. A login of an unknown user is checked against this hash, so that it takes as long as the
 * login of a known user.
 */
const nobodysHash = bcryptHash(randomBytes(24).toString('hex'), COST);

/** Hashes a password. `ref` is the project whose limit counts. */
export const hashPassword = (ref: string, password: string) => limit.run(ref, () => bcryptHash(password, COST));

/** Verifies a password. A missing or unsupported hash returns false, in the same time. */
export function verifyPassword(ref: string, password: string, hash: string | null | undefined): Promise<boolean> {
  return limit.run(ref, async () => {
    const argon2Parameters = hash ? parseArgon2(hash) : undefined;
    if (hash && argon2Parameters) return verifyArgon2(password, argon2Parameters);
    if (hash && BCRYPT.test(hash)) return bcryptVerify(password, hash);
    await bcryptVerify(password, await nobodysHash);
    return false;
  });
}

export const isPasswordHash = (hash: string) => BCRYPT.test(hash) || parseArgon2(hash) !== undefined;

/** Matches a bcrypt hash of acceptable cost, because a project's owner can write any hash into the table. */
const BCRYPT = /^\$2[aby]\$(0[4-9]|1[0-4])\$[./A-Za-z0-9]{53}$/;
const ARGON2_MOST = { memory: 128 * 1024, passes: 10, parallelism: 16 };
const ARGON2 =
  /^\$(argon2id?)\$v=19\$m=(\d{1,6}),t=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]{11,88})\$([A-Za-z0-9+/]{22,88})$/;

interface Argon2Hash {
  algorithm: 'argon2i' | 'argon2id';
  memory: number;
  passes: number;
  parallelism: number;
  nonce: Buffer;
  tag: Buffer;
}

function parseArgon2(hash: string): Argon2Hash | undefined {
  const [, algorithm, memory, passes, parallelism, nonce = '', tag = ''] = ARGON2.exec(hash) ?? [];
  if (algorithm === undefined) return undefined;
  const cost = { memory: Number(memory), passes: Number(passes), parallelism: Number(parallelism) };
  if (cost.memory > ARGON2_MOST.memory || cost.passes > ARGON2_MOST.passes) return undefined;
  if (cost.parallelism > ARGON2_MOST.parallelism || cost.memory < 8 * cost.parallelism) return undefined;
  if (cost.passes < 1 || cost.parallelism < 1) return undefined;
  return {
    algorithm: algorithm as Argon2Hash['algorithm'],
    ...cost,
    nonce: Buffer.from(nonce, 'base64'),
    tag: Buffer.from(tag, 'base64'),
  };
}

async function verifyArgon2(password: string, { algorithm, tag, ...parameters }: Argon2Hash): Promise<boolean> {
  const actual = await promisify(argon2)(algorithm, { ...parameters, message: password, tagLength: tag.length });
  return timingSafeEqual(actual, tag);
}
