/** Lets a request through to a route that is for everybody, or whose scope its token has. */
import { type ExecutionContext, Injectable } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import { Problem } from '../http/problem.js';
import { RequestLimits } from '../http/request-limits.js';
import { ROUTE, type RouteRule } from '../http/route.js';
import { BEARER } from './bearer.strategy.js';
import type { Principal } from './principal.js';
import { SCOPES, type Scope } from './scopes.js';

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
    // A handler without a rule would be one that somebody forgot to declare with @Route.
    if (rule?.access === 'none' || rule?.access === 'apikey') return true;
    await super.canActivate(context);
    const { user, ip } = context.switchToHttp().getRequest<{ user: Principal; ip: string | undefined }>();
    this.limits.countForAccount(user.user.id, ip, rule?.cost ?? 1);
    if (rule?.access === 'user') {
      if (user.tokenId !== null) throw needsUserToken();
      return true;
    }
    if (!rule || !user.scopes.includes(rule.access)) throw lacking(rule?.access);
    return true;
  }

  override handleRequest<T>(error: unknown, principal: T, info: unknown): T {
    if (error) throw error;
    if (!principal) throw unauthorized(info === 'missing');
    return principal;
  }
}

function unauthorized(missing: boolean) {
  const detail = missing
    ? 'Send a token: `Authorization: Bearer <token>`, from POST /auth/login or POST /tokens.'
    : 'The token is not valid, has ended or was revoked. Log in again, or use another token.';
  const challenge = missing ? 'Bearer' : 'Bearer error="invalid_token"';
  return new Problem('unauthorized', detail, { headers: { 'www-authenticate': challenge } });
}

const needsUserToken = () =>
  new Problem('not_allowed', 'This route takes a user token, from POST /auth/login, and no personal access token.');

function lacking(scope: Scope | undefined) {
  if (!scope) return new Problem('not_allowed', 'This route is not open.');
  return new Problem('missing_scope', `The token lacks the scope ${scope}: ${SCOPES[scope]}.`, {
    headers: { 'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"` },
  });
}
