/** Admits a request if its route is open to everybody, or if its token has the scope of the route. */
import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { VERIFIED_HEADER } from '@slipway/installation';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Principal } from '../callers/principal.js';
import { Problem } from '../http/problem.js';
import { RequestLimits } from '../http/request-limits.js';
import { ROUTE, type RouteRule } from '../http/route.js';
import { SCOPES, type Scope } from '../http/scopes.js';
import { BEARER } from './bearer.strategy.js';

interface Needed {
  access: Scope | 'user' | undefined;
  cost: number;
}

@Injectable()
export class AccessGuard extends AuthGuard(BEARER) {
  constructor(
    private readonly reflector: Reflector,
    private readonly limits: RequestLimits,
  ) {
    super();
  }

  override async canActivate(context: ExecutionContext): Promise<boolean> {
    const rule = this.reflector.get<RouteRule | undefined>(ROUTE, context.getHandler());
    // A handler without a rule was not declared with @Route: the bearer check below rejects it.
    if (rule?.access === 'none' || rule?.access === 'apikey' || rule?.access === 'ticket') return true;
    const needed = { access: rule?.access, cost: rule?.cost ?? 1 };
    return rule?.webhookHeaders && hasWebhookProof(context, rule.webhookHeaders)
      ? this.tryBearer(context, needed)
      : this.bearer(context, needed);
  }

  /** Authenticates by the bearer token if it is valid. Otherwise the handler decides by the webhook's proof. */
  private async tryBearer(context: ExecutionContext, needed: Needed): Promise<true> {
    await this.bearer(context, needed).catch((error: unknown) => {
      if (!(error instanceof Problem && [401, 403].includes(error.status))) throw error;
      delete context.switchToHttp().getRequest<{ user?: Principal }>().user;
    });
    return true;
  }

  private async bearer(context: ExecutionContext, { access, cost }: Needed): Promise<true> {
    await super.canActivate(context);
    const { user, ip } = context.switchToHttp().getRequest<{ user: Principal; ip: string | undefined }>();
    context.switchToHttp().getResponse<FastifyReply>().header(VERIFIED_HEADER, '1');
    this.limits.countForAccount(user.user.id, ip, cost);
    if (access === 'user') {
      if (user.tokenId !== null) throw needsUserToken();
      return true;
    }
    if (!access || !user.scopes.includes(access)) throw missingScope(access);
    return true;
  }

  override handleRequest<T>(error: unknown, principal: T, info: unknown): T {
    if (error) throw error;
    if (!principal) throw unauthorized(info === 'missing');
    return principal;
  }
}

function hasWebhookProof(context: ExecutionContext, names: readonly string[]): boolean {
  const { query, headers } = context.switchToHttp().getRequest<FastifyRequest<{ Querystring: { token?: unknown } }>>();
  return typeof query.token === 'string' || names.some((name) => headers[name] !== undefined);
}

function unauthorized(missing: boolean) {
  const detail = missing
    ? 'Send a token: `Authorization: Bearer <token>`, from POST /auth/login or POST /tokens.'
    : 'The token is not valid, has expired or was revoked. Log in again, or use another token. ' +
      'The keys of a project are valid only below its project_url.';
  const challenge = missing ? 'Bearer' : 'Bearer error="invalid_token"';
  return new Problem('unauthorized', detail, { headers: { 'www-authenticate': challenge } });
}

const needsUserToken = () =>
  new Problem(
    'not_allowed',
    'This route accepts only a user token, from POST /auth/login, not a personal access token.',
  );

function missingScope(scope: Scope | undefined) {
  if (!scope) return new Problem('not_allowed', 'This route has no access rule.');
  return new Problem(
    'missing_scope',
    `The token lacks the scope ${scope}: ${SCOPES[scope]}. Create one with it under POST /tokens.`,
    {
      headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
    },
  );
}
