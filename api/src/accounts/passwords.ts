/** Argon2id with OWASP's parameters. Each hash takes 19 MiB, so only a few run at once and a bounded number wait. */
import { randomBytes } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { hash, verify } from '@node-rs/argon2';
import { retryLater } from '../http/problem.js';

const ARGON2ID = { algorithm: 2, memoryCost: 19_456, timeCost: 2, parallelism: 1 };
const AT_ONCE = 2;
const MAY_WAIT = 100;
/** Waiting passwords of one network, so that it can't fill the queue for all others. */
const MAY_WAIT_OF_ONE = 10;

@Injectable()
export class Passwords {
  private running = 0;
  private readonly waiting: { network: string | undefined; go: () => void }[] = [];
  /** Verified against when there is no such account, so that both take as long. */
  private readonly nobodys = hash(randomBytes(16), ARGON2ID);

  /** `network`: of the caller, whose share of the queue is bounded. */
  hash(password: string, network?: string): Promise<string> {
    return this.inTurn(network, () => hash(password, ARGON2ID));
  }

  matches(stored: string | undefined, password: string, network?: string): Promise<boolean> {
    return this.inTurn(network, async () => {
      const matched = await verify(stored ?? (await this.nobodys), password);
      return matched && stored !== undefined;
    });
  }

  private async inTurn<T>(network: string | undefined, work: () => Promise<T>): Promise<T> {
    const ofOne = network === undefined ? 0 : this.waiting.filter((other) => other.network === network).length;
    if (this.waiting.length >= MAY_WAIT || ofOne >= MAY_WAIT_OF_ONE)
      throw retryLater('unavailable', 'Too many log in at once. Try again.', 2);
    if (this.running >= AT_ONCE) await new Promise<void>((go) => this.waiting.push({ network, go }));
    else this.running += 1;
    try {
      return await work();
    } finally {
      const next = this.waiting.shift();
      if (next) next.go();
      else this.running -= 1;
    }
  }
}
