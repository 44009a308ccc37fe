/**
 * Authenticates requests by the bearer tokens of the tokens file. There is no authorization: every token allows
 * everything.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { unauthorized } from '../status.js';

export interface TokenUser {
  token: string;
  user: string;
  groups: string[];
}

export type User = Omit<TokenUser, 'token'>;

const digest = (text: string) => createHash('sha256').update(text).digest();

export class Authentication {
  readonly #users: { digest: Buffer; user: User }[];

  constructor(tokens: readonly TokenUser[]) {
    this.#users = tokens.map(({ token, user, groups }) => ({ digest: digest(token), user: { user, groups } }));
  }

  /** Finds the caller. The token is compared with every known token in constant time. */
  authenticate({ headers }: IncomingMessage): User {
    const [, token] = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    const given = digest(token ?? '');
    let caller: User | undefined;
    for (const { digest: wanted, user } of this.#users) if (timingSafeEqual(given, wanted)) caller = user;
    if (!caller || token === undefined) throw unauthorized();
    return caller;
  }
}
