import { Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { missing } from '../http/problem.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { EXAMPLES, ListedSession, SessionId } from './life-cycle.schema.js';
import { SessionsRepository } from './sessions.repository.js';

@ApiTags('accounts')
@Controller()
export class SessionsController {
  constructor(private readonly sessions: SessionsRepository) {}

  @Route('GET', '/auth/sessions', {
    summary: 'List sessions',
    description: 'Each login makes a session with a user token. The newest comes first.',
    access: 'user',
    answer: {
      status: 200,
      description: 'Sessions that have not expired.',
      schema: Type.Array(ListedSession),
      example: EXAMPLES.sessions,
    },
  })
  async listSessions(@Caller() { user, sessionId }: Principal): Promise<ListedSession[]> {
    return (await this.sessions.of(user.id)).map(({ id, network, userAgent, createdAt, expiresAt }) => ({
      id,
      network,
      user_agent: userAgent,
      created_at: createdAt.toISOString(),
      expires_at: expiresAt.toISOString(),
      current: id === sessionId,
    }));
  }

  @Route('DELETE', '/auth/sessions/{id}', {
    summary: 'End a session',
    description: 'Its user token is revoked.',
    access: 'user',
    params: SessionId,
    answer: { status: 200, description: 'The session has ended.', schema: OK, example: { ok: true } },
    problems: { 404: 'There is no such session.' },
  })
  async endSession(@Caller() { user }: Principal, @Param() { id }: Type.Static<typeof SessionId>): Promise<Ok> {
    if (!(await this.sessions.end(user.id, id))) throw missing('session');
    return { ok: true };
  }
}
