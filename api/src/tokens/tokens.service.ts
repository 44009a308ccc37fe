/** Creates, lists and revokes personal access tokens: 256 random bits, of which only the SHA-256 is stored. */
import { createHash, randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import type { Logger } from 'pino';
import { accountPart, type Principal } from '../callers/principal.js';
import { invalid, missing, Problem } from '../http/problem.js';
import { type Scope, withoutAdministration } from '../http/scopes.js';
import { Outbox } from '../outbox/outbox.js';
import { LOG } from '../settings/injected.js';
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
    private readonly outbox: Outbox,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async list(caller: Principal): Promise<ListedToken[]> {
    const tokens = await this.tokens.of(caller.user.id);
    // A token with project_ids must not see the other tokens of the account.
    const shown = caller.projectIds === null ? tokens : tokens.filter(({ id }) => id === caller.tokenId);
    return shown.map(listed);
  }

  async create(caller: Principal, input: NewToken): Promise<CreatedToken> {
    const value = PREFIX + randomBytes(32).toString('base64url');
    const fields = {
      name: input.name ?? '',
      hash: hashOf(value),
      hint: value.slice(0, HINT_LENGTH),
      parentId: caller.tokenId,
      scopes: scopesWithin(caller, input.scopes),
      projectIds: projectsWithin(caller, input.project_ids),
      expiresAt: expiryWithin(caller, input.expires_in),
    };
    const token = await this.tokens.add(
      { userId: caller.user.id, sessionId: caller.sessionId },
      fields,
      TOKENS_PER_USER,
    );
    if (token === 'too many') throw tooMany();
    if (!token) throw revokedMeanwhile();
    this.outbox.announce();
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

  /** Records the use in the background: the request neither waits for it nor fails by it. */
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

function scopesWithin(caller: Principal, requested: Scope[] | undefined): Scope[] {
  const missingRights = missingScopes(caller, requested ?? []);
  if (missingRights)
    throw new Problem('missing_scope', `A token cannot grant more than it has: this one lacks ${missingRights}.`);
  return [...new Set(requested ?? withoutAdministration(caller.scopes))];
}

function projectsWithin(caller: Principal, requested: number[] | undefined): number[] | null {
  const ids = requested ?? caller.projectIds;
  const missingRights = missingProjects(caller, ids);
  if (missingRights)
    throw new Problem('not_allowed', `A token cannot grant more than it has: this one lacks ${missingRights}.`);
  return ids && [...new Set(ids)];
}

/**
 * Rejects a revocation by a token with fewer rights. Rights only shrink from parent to child, so one check suffices.
 */
function refuseWider(caller: Principal, { scopes, projectIds }: Token): void {
  const scopesOfIt = missingScopes(caller, scopes);
  const projectsOfIt = missingProjects(caller, projectIds ?? null);
  const missingRights = [scopesOfIt, projectsOfIt].filter(Boolean).join(' and ');
  if (!missingRights) return;
  const kind = scopesOfIt ? 'missing_scope' : 'not_allowed';
  throw new Problem(kind, `A token cannot revoke one with more rights: this one lacks ${missingRights}.`);
}

function missingScopes(caller: Principal, scopes: readonly Scope[]): string | undefined {
  const missingRights = scopes.filter((scope) => !caller.scopes.includes(scope));
  return missingRights.length > 0 ? `the scope ${missingRights.join(', ')}` : undefined;
}

function missingProjects({ projectIds }: Principal, wanted: readonly number[] | null): string | undefined {
  if (projectIds === null) return undefined;
  if (wanted === null) return `all projects but ${projectIds.join(', ')}`;
  const missingRights = wanted.filter((id) => !projectIds.includes(id));
  return missingRights.length > 0 ? `the project ${missingRights.join(', ')}` : undefined;
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
    throw invalid(
      'expires_in',
      `must not exceed the lifetime of the caller's token, which expires at ${limit.toISOString()}`,
    );
  return expiry ?? limit;
}
