import type { IncomingHttpHeaders } from 'node:http';
import { Controller, Headers, Param, Query, type StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { eventStream, isEventStream } from '../live/followers.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { linePositionOf } from './line-followers.js';
import { ProjectLogPath, ProjectLogQuery, ProjectLogs } from './logs.schema.js';
import { LogsService } from './logs.service.js';

const EXAMPLE: ProjectLogs = {
  items: [
    {
      time: '2026-01-05T10:00:00.000Z',
      level: 'error',
      message: 'mail not sent',
      kind: 'magiclink',
      reason: 'the server refused: 535 5.7.8 Authentication failed',
      request_id: '5f1c2a9b7e03-k2',
    },
    {
      time: '2026-01-05T10:00:00.010Z',
      level: 'error',
      message: 'request rejected',
      method: 'POST',
      path: '/otp',
      request_id: '5f1c2a9b7e03-k2',
      status: 500,
      code: 'unexpected_failure',
    },
  ],
};

@ApiTags('projects')
@Controller()
export class LogsController {
  constructor(private readonly logs: LogsService) {}

  @Route('GET', '/projects/{id}/logs/{service}', {
    summary: "Read the log of a project's service",
    description:
      'Returns the newest lines: rejected requests with the code of their error, mails that were not sent, and ' +
      'settings that are not valid. Queries, headers and bodies are left out. ' +
      'The log of `functions` is the output of all functions. ' +
      'The log of `postgres` has errors and warnings of the database, without statements and details. ' +
      'With `Accept: text/event-stream` the log is followed: an event `line` has a line, and `end` means that the ' +
      'project was removed. `Last-Event-ID` continues after an event.',
    access: 'logs:read',
    cost: 5,
    params: ProjectLogPath,
    query: ProjectLogQuery,
    answer: { status: 200, description: 'The lines.', schema: ProjectLogs, example: EXAMPLE },
    problems: {
      ...NO_PROJECT,
      400: 'The project has no database, or a parameter is not valid.',
      409: { kind: 'project_not_ready', text: 'The machine of a dedicated project has no services yet, or is off.' },
      429: 'Too many requests, or too many readers follow logs.',
      503: { kind: 'unavailable', text: 'The log can not be read now.' },
    },
  })
  async readProjectLog(
    @Caller() caller: Principal,
    @Param() path: ProjectLogPath,
    @Query() query: ProjectLogQuery,
    @Headers() headers: IncomingHttpHeaders,
    @CallerSignal() closed: AbortSignal,
  ): Promise<ProjectLogs | StreamableFile> {
    if (!isEventStream(headers)) return this.logs.read(caller, path, query);
    return eventStream(await this.logs.follow(caller, path, query, { from: linePositionOf(headers), closed }));
  }
}
