/** Runs each route's checks (`route.ts`) after authentication, so that a handler gets checked and typed input. */
import { type CallHandler, type ExecutionContext, type NestInterceptor } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { FastifyRequest } from 'fastify';
import { ROUTE, type RouteRule } from './route.js';

export class RouteInterceptor implements NestInterceptor {
  constructor(private readonly reflector: Reflector) {}

  intercept(context: ExecutionContext, next: CallHandler) {
    const rule = this.reflector.get<RouteRule | undefined>(ROUTE, context.getHandler());
    const request = context.switchToHttp().getRequest<FastifyRequest>();
    const { params, query, body } = rule?.checks ?? {};
    if (params) request.params = params(request.params);
    if (query) request.query = query(request.query);
    if (body) request.body = body(request.body);
    return next.handle();
  }
}
