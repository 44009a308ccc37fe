import { Readable } from 'node:stream';
import { Body, Controller, Param, StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { EXAMPLE, QueryBody, QueryResult } from './query.schema.js';
import { QueryService } from './query.service.js';

@ApiTags('projects')
@Controller()
export class QueryController {
  constructor(private readonly queries: QueryService) {}

  @Route('POST', '/projects/{id}/query', {
    summary: "Run SQL on a project's database",
    description:
      "Runs SQL as the project's unprivileged owner role, in a new session, for at most 30 seconds. " +
      'The response has at most 1000 rows and 8 MiB.',
    access: 'database:query',
    cost: 2,
    params: ProjectId,
    body: QueryBody,
    bodyExamples: { select: { sql: 'select id, title from todos order by id' } },
    answer: { status: 200, description: 'The result of the last statement.', schema: QueryResult, example: EXAMPLE },
    problems: {
      400:
        'The body or the id is not valid, the project has no database, or the database rejected the SQL: ' +
        'then `sqlstate`, `position`, `sql_detail` and `hint` are those of its error.',
      ...NO_PROJECT,
      409: { kind: 'project_not_ready', text: 'The project is not provisioned yet, or is being deleted.' },
      429: 'Too many queries of this project run at once.',
    },
  })
  async queryProject(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() { sql }: QueryBody,
    @CallerSignal() signal: AbortSignal,
  ): Promise<StreamableFile> {
    const pieces = await this.queries.run(caller, id, sql, signal);
    const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
    return new StreamableFile(Readable.from(pieces), { type: 'application/json; charset=utf-8', length });
  }
}
