import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../access/caller.js';
import type { Principal } from '../access/principal.js';
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
      'Its value is shown this once. With a personal access token as the caller, the new one gets at most its rights, and is revoked with it.',
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
      'With it all that was made with it, and with those in turn. A personal access token as the caller revokes none that has scopes or projects which it lacks.',
    access: 'tokens:write',
    params: TokenId,
    answer: {
      status: 200,
      description: 'It and its descendants are of no use from now on.',
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
