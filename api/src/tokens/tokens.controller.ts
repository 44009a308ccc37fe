import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { CreatedToken, EXAMPLES, ListedToken, NewToken, TokenId } from './token.schema.js';
import { TokensService } from './tokens.service.js';

@ApiTags('tokens')
@Controller()
export class TokensController {
  constructor(private readonly tokens: TokensService) {}

  @Route('GET', '/tokens', {
    summary: 'List personal access tokens',
    access: 'tokens:read',
    answer: {
      status: 200,
      description: 'The tokens, without their values.',
      schema: Type.Array(ListedToken),
      example: EXAMPLES.list,
    },
  })
  listTokens(@Caller() caller: Principal): Promise<ListedToken[]> {
    return this.tokens.list(caller);
  }

  @Route('POST', '/tokens', {
    summary: 'Create a personal access token',
    description:
      'Its value is shown only here. A token created with a personal access token has at most its rights, ' +
      'and is revoked with it.',
    access: 'tokens:write',
    cost: 10,
    body: NewToken,
    bodyExamples: { ci: EXAMPLES.body },
    answer: { status: 201, description: 'The token and its value.', schema: CreatedToken, example: EXAMPLES.created },
    links: {
      revoke: { operationId: 'revokeToken', parameters: { id: '$response.body#/id' }, description: 'Revoke it.' },
    },
  })
  createToken(@Caller() caller: Principal, @Body() body: NewToken): Promise<CreatedToken> {
    return this.tokens.create(caller, body);
  }

  @Route('DELETE', '/tokens/{id}', {
    summary: 'Revoke a personal access token',
    description:
      'Revokes also the tokens created with it, and their descendants. ' +
      'A personal access token cannot revoke a token with scopes or projects beyond its own.',
    access: 'tokens:write',
    params: TokenId,
    answer: {
      status: 200,
      description: 'The token and its descendants are revoked.',
      schema: OK,
      example: { ok: true },
    },
    problems: { 404: 'There is no such token.' },
  })
  async revokeToken(@Caller() caller: Principal, @Param() { id }: Type.Static<typeof TokenId>): Promise<Ok> {
    await this.tokens.revoke(caller, id);
    return { ok: true };
  }
}
