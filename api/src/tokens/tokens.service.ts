/** Personal access tokens: 256 random bits, of which only the SHA-256 is kept. */
import { createHash, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { accountPart, type Principal } from '../access/principal.js';
import { type Scope, withoutAdministration } from '../access/scopes.js';
import { invalid, missing, Problem } from '../http/problem.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { LOG } from '../platform.js';
import type { Token } from './token.entity.js';
import { type CreatedToken, type ListedToken, listed, type NewToken } from './token.schema.js';
import { TokensRepository } from './tokens.repository.js';

const PREFIX = 'pat_';
const HINT_LENGTH = PREFIX.length + 4;
export const TOKENS_PER_USER = 500;
const USE_IS_NOTED_EVERY_MS = 60_000;

export const isTokenValue = (value: string) => value.startsWith(PREFIX);
const hashOf = (value: string) => createHash('sha256').update(value).digest();

@Injectable()
export class TokensService {
  private readonly noting = new Set<number>();

  constructor(
    private readonly tokens: TokensRepository,
    private readonly mail: AccountMail,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async list(caller: Principal): Promise<ListedToken[]> {
    const tokens = await this.tokens.of(caller.user.id);
    // One that is limited to projects learns nothing of what the account has beside them.
    const shown = caller.projectIds === null ? tokens : tokens.filter(({ id }) => id === caller.tokenId);
    return shown.map(listed);
  }

  async create(caller: Principal, wish: NewToken): Promise<CreatedToken> {
    const value = PREFIX + randomBytes(32).toString('base64url');
    const fields = {
      name: wish.name ?? '',
      hash: hashOf(value),
      hint: value.slice(0, HINT_LENGTH),
      parentId: caller.tokenId,
      scopes: scopesWithin(caller, wish.scopes),
      projectIds: projectsWithin(caller, wish.project_ids),
      expiresAt: expiryWithin(caller, wish.expires_in),
    };
    const token = await this.tokens.add(
      { userId: caller.user.id, sessionId: caller.sessionId },
      fields,
      TOKENS_PER_USER,
    );
    if (token === 'too many') throw tooMany();
    if (!token) throw revokedMeanwhile();
    this.mail.post(caller.user.email, letters.token(this.mail.publicUrl, token.name, token.scopes));
    return { ...listed(token), token: value };
  }

  async revoke(caller: Principal, id: number): Promise<void> {
    const token = await this.tokens.one(caller.user.id, id);
    if (!token) throw missing('token');
    refuseWider(caller, token);
    if (!(await this.tokens.remove(caller.user.id, id))) throw missing('token');
  }

  async principalOf(value: string): Promise<Principal | undefined> {
    const token = await this.tokens.live(hashOf(value));
    const account = token && accountPart(token.user, token.scopes);
    if (!account) return undefined;
    this.noteUse(token);
    return {
      ...account,
      projectIds: token.projectIds ?? null,
      tokenId: token.id,
      sessionId: null,
      tokenEnds: token.expiresAt ?? null,
    };
  }

  /** Beside the request, which neither waits for it nor fails by it. */
  private noteUse({ id, lastUsedAt }: Token): void {
    const now = new Date();
    const fresh = lastUsedAt && now.getTime() - lastUsedAt.getTime() < USE_IS_NOTED_EVERY_MS;
    if (fresh || this.noting.has(id)) return;
    this.noting.add(id);
    this.tokens
      .touch(id, now)
      .catch((error: unknown) => this.log.warn({ err: error, token: id }, 'token use not recorded'))
      .finally(() => this.noting.delete(id));
  }
}

function scopesWithin(caller: Principal, wished: Scope[] | undefined): Scope[] {
  const lacking = lackingScopes(caller, wished ?? []);
  if (lacking) throw new Problem('missing_scope', `A token can not give more than it has: this one lacks ${lacking}.`);
  return [...new Set(wished ?? withoutAdministration(caller.scopes))];
}

function projectsWithin(caller: Principal, wished: number[] | undefined): number[] | null {
  const ids = wished ?? caller.projectIds;
  const lacking = lackingProjects(caller, ids);
  if (lacking) throw new Problem('not_allowed', `A token can not give more than it has: this one lacks ${lacking}.`);
  return ids && [...new Set(ids)];
}

/** Rejects rights beyond the caller's. Tokens descend from tokens, so a check of the direct parent suffices. */
function refuseWider(caller: Principal, { scopes, projectIds }: Token): void {
  const scopesOfIt = lackingScopes(caller, scopes);
  const projectsOfIt = lackingProjects(caller, projectIds ?? null);
  const lacking = [scopesOfIt, projectsOfIt].filter(Boolean).join(' and ');
  if (!lacking) return;
  const kind = scopesOfIt ? 'missing_scope' : 'not_allowed';
  throw new Problem(kind, `A token can not revoke one that has more than itself: this one lacks ${lacking}.`);
}

function lackingScopes(caller: Principal, scopes: readonly Scope[]): string | undefined {
  const lacking = scopes.filter((scope) => !caller.scopes.includes(scope));
  return lacking.length > 0 ? `the scope ${lacking.join(', ')}` : undefined;
}

function lackingProjects({ projectIds }: Principal, wanted: readonly number[] | null): string | undefined {
  if (projectIds === null) return undefined;
  if (wanted === null) return `all projects but ${projectIds.join(', ')}`;
  const lacking = wanted.filter((id) => !projectIds.includes(id));
  return lacking.length > 0 ? `the project ${lacking.join(', ')}` : undefined;
}

const tooMany = () =>
  new Problem('token_limit', `An account has at most ${TOKENS_PER_USER} tokens. Revoke some with DELETE /tokens/{id}.`);

const revokedMeanwhile = () =>
  new Problem('unauthorized', 'The token was revoked. Log in again, or use another token.', {
    headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
  });

function expiryWithin(caller: Principal, seconds: number | undefined): Date | null {
  const expiry = seconds === undefined ? null : new Date(Date.now() + seconds * 1000);
  const limit = caller.tokenEnds;
  if (limit === null) return expiry;
  if (expiry && expiry > limit)
    throw invalid('expires_in', `must not outlast the token it is made with, which ends at ${limit.toISOString()}`);
  return expiry ?? limit;
}
