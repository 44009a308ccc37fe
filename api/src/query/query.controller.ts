import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../access/caller.js';
import type { Principal } from '../access/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { EXAMPLE, QueryBody, QueryResult } from './query.schema.js';
import { QueryService } from './query.service.js';

@ApiTags('projects')
@Controller()
export class QueryController {
  constructor(private readonly queries: QueryService) {}

  @Route('POST', '/projects/{id}/query', {
    summary: "Run SQL on a project's database",
    description:
      "As the project's own unprivileged role, in a session of its own, for at most 30 seconds. At most 1000 rows and 8 MiB are answered for all statements.",
    access: 'database:query',
    cost: 2,
    params: ProjectId,
    body: QueryBody,
    bodyExamples: { select: { sql: 'select id, title from todos order by id' } },
    answer: { status: 200, description: 'What the last statement gave.', schema: QueryResult, example: EXAMPLE },
    problems: {
      400: 'The body or the id is not valid, or the database refused the SQL: then `sqlstate`, `position`, `sql_detail` and `hint` are its words.',
      404: 'There is no such project, or it is not yours.',
      409: { kind: 'project_not_ready', text: 'The project is not provisioned yet, or is being deleted.' },
      429: 'Too many queries of this project run at once.',
    },
  })
  queryProject(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() { sql }: QueryBody,
    @CallerSignal() signal: AbortSignal,
  ): Promise<QueryResult> {
    return this.queries.run(caller, id, sql, signal);
  }
}
