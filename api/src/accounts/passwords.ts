/**
 * Hashes and verifies passwords by Argon2id, with OWASP's parameters. Each hash takes 19 MiB, so only a few hashes run
 * at once and a limited number wait.
 */
import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { hash, verify } from '@node-rs/argon2';
import { ConcurrencyLimit } from '@slipway/program';
import { retryLater } from '../http/problem.js';

const ARGON2ID = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 };
/**
 * Limits of hashes: running, waiting, and waiting for one network, so that no network can fill the queue for all
 * others.
 */
const BOUNDS = { most: 2, waiting: 100, waitingOfOne: 10 };

@Injectable()
export class Passwords {
  private readonly limit = new ConcurrencyLimit(BOUNDS, () =>
    retryLater('unavailable', 'Too many logins at once. Try again.', 2),
  );
  /** Hash that is verified for an unknown account, so that an unknown address takes as long as a wrong password. */
  private readonly nobodys = hash(randomBytes(16), ARGON2ID);

  /** Hashes a password. `network` is the caller's network, whose share of the queue is limited. */
  hash(password: string, network: string): Promise<string> {
    return this.limit.run(network, () => hash(password, ARGON2ID));
  }

  matches(stored: string | undefined, password: string, network: string): Promise<boolean> {
    return this.limit.run(network, async () => {
      const matched = await verify(stored ?? (await this.nobodys), password);
      return matched && stored !== undefined;
    });
  }
}
