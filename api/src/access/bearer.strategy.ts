/** Passport's strategy for `Authorization: Bearer`: a user token or a personal access token becomes a Principal. */
import { Injectable } from '@nestjs/common';
import { PassportStrategy } from '@nestjs/passport';
import type { FastifyRequest } from 'fastify';
import { Strategy } from 'passport';
import { SessionsRepository } from '../accounts/sessions.repository.js';
import { UserTokens } from '../accounts/user-tokens.js';
import { accountPart, type Principal } from '../callers/principal.js';
import { ALL_SCOPES } from '../http/scopes.js';
import { isTokenValue, TokensService } from '../tokens/tokens.service.js';

export const BEARER = 'bearer';

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy, BEARER) {
  constructor(
    private readonly userTokens: UserTokens,
    private readonly sessions: SessionsRepository,
    private readonly tokens: TokensService,
  ) {
    super();
  }

  override authenticate(request: unknown): void {
    const value = bearerOf(request as FastifyRequest);
    if (value === undefined) return this.fail('missing');
    this.principalOf(value).then(
      (principal) => (principal ? this.success(principal) : this.fail('invalid')),
      (error: unknown) => this.error(error),
    );
  }

  /** Required by Passport's interface, which does not call it for a strategy that authenticates itself. */
  validate(): never {
    throw new Error('authenticate() decides');
  }

  private principalOf(value: string): Promise<Principal | undefined> {
    return isTokenValue(value) ? this.tokens.principalOf(value) : this.ofUserToken(value);
  }

  private async ofUserToken(value: string): Promise<Principal | undefined> {
    const read = await this.userTokens.read(value);
    const user = read && (await this.sessions.userOf(read.userId, read.sessionId));
    const account = user && accountPart(user, ALL_SCOPES);
    if (!account) return undefined;
    return { ...account, projectIds: null, tokenId: null, sessionId: read.sessionId ?? null, tokenEnds: null };
  }
}

function bearerOf({ headers }: FastifyRequest): string | undefined {
  return /^bearer +([\w.~+/=-]+)$/i.exec(headers.authorization ?? '')?.[1];
}
