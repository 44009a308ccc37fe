import { Body, Controller, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../access/caller.js';
import type { Principal } from '../access/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { ProjectId } from '../projects/project.schema.js';
import {
  EXAMPLE_CODE,
  EXAMPLE_FUNCTION,
  FullFunction,
  FunctionChange,
  FunctionId,
  FunctionVersion,
  ListedFunction,
  LogLine,
  LogQuery,
  NewFunction,
  Rollback,
} from './function.schema.js';
import { FunctionsService } from './functions.service.js';

const NO_PROJECT = { 404: 'There is no such project, or it is not yours.' };
const NO_FUNCTION = { 404: 'There is no such project or function, or it is not yours.' };
const FULL_EXAMPLE = { ...EXAMPLE_FUNCTION, code: EXAMPLE_CODE };
const TOO_MUCH_CODE = {
  413: 'The body is larger than 1 MiB, or the functions of the project would have more code than they may (`code_limit`).',
};
const DEPLOY_PROBLEMS = {
  ...NO_FUNCTION,
  400: 'The code can not be deployed: `problems` says why, with line and column. Callers get what they got before.',
  409: { kind: 'conflict', text: 'It is changed by others at the same time.' },
  429: 'Too many deploys and rollbacks of this project run at once.',
} as const;

@ApiTags('functions')
@Controller()
export class FunctionsController {
  constructor(private readonly functions: FunctionsService) {}

  @Route('GET', '/projects/{id}/functions', {
    summary: 'List edge functions',
    access: 'functions:read',
    params: ProjectId,
    answer: {
      status: 200,
      description: 'All, without their code.',
      schema: Type.Array(ListedFunction),
      example: [EXAMPLE_FUNCTION],
    },
    problems: NO_PROJECT,
  })
  listFunctions(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<ListedFunction[]> {
    return this.functions.list(caller, id);
  }

  @Route('POST', '/projects/{id}/functions', {
    summary: 'Create an edge function',
    description: 'Callers get it once it is deployed.',
    access: 'functions:write',
    cost: 10,
    params: ProjectId,
    body: NewFunction,
    bodyExamples: { hello: { name: 'hello', code: EXAMPLE_CODE } },
    answer: { status: 201, description: 'The function.', schema: FullFunction, example: FULL_EXAMPLE },
    problems: {
      ...NO_PROJECT,
      ...TOO_MUCH_CODE,
      409: {
        kind: 'name_taken',
        text: 'The name is taken, or the project is not provisioned yet or is being deleted.',
      },
    },
  })
  createFunction(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() wish: NewFunction,
  ): Promise<FullFunction> {
    return this.functions.create(caller, id, wish);
  }

  @Route('GET', '/projects/{id}/functions/{funcId}', {
    summary: 'Read an edge function',
    access: 'functions:read',
    params: FunctionId,
    answer: { status: 200, description: 'The function with its code.', schema: FullFunction, example: FULL_EXAMPLE },
    problems: NO_FUNCTION,
  })
  readFunction(@Caller() caller: Principal, @Param() { id, funcId }: FunctionId): Promise<FullFunction> {
    return this.functions.read(caller, id, funcId);
  }

  @Route('PATCH', '/projects/{id}/functions/{funcId}', {
    summary: 'Change an edge function',
    description: 'New code is a new version, which callers get once it is deployed; `verify_jwt` holds at once.',
    access: 'functions:write',
    cost: 10,
    params: FunctionId,
    body: FunctionChange,
    bodyExamples: { code: { code: EXAMPLE_CODE } },
    answer: { status: 200, description: 'The function.', schema: FullFunction, example: FULL_EXAMPLE },
    problems: { ...NO_FUNCTION, ...TOO_MUCH_CODE },
  })
  changeFunction(
    @Caller() caller: Principal,
    @Param() { id, funcId }: FunctionId,
    @Body() change: FunctionChange,
  ): Promise<FullFunction> {
    return this.functions.change(caller, id, funcId, change);
  }

  @Route('DELETE', '/projects/{id}/functions/{funcId}', {
    summary: 'Delete an edge function',
    access: 'functions:write',
    params: FunctionId,
    answer: { status: 200, description: 'It is going.', schema: OK, example: { ok: true } },
    problems: NO_FUNCTION,
  })
  async deleteFunction(@Caller() caller: Principal, @Param() { id, funcId }: FunctionId): Promise<Ok> {
    await this.functions.remove(caller, id, funcId);
    return { ok: true };
  }

  @Route('POST', '/projects/{id}/functions/{funcId}/deploy', {
    summary: 'Deploy an edge function',
    description: 'Answers when callers get the code as it is now; no call fails meanwhile.',
    access: 'functions:write',
    cost: 10,
    params: FunctionId,
    answer: { status: 200, description: 'The function.', schema: ListedFunction, example: EXAMPLE_FUNCTION },
    problems: DEPLOY_PROBLEMS,
  })
  deployFunction(
    @Caller() caller: Principal,
    @Param() { id, funcId }: FunctionId,
    @CallerSignal() signal: AbortSignal,
  ): Promise<ListedFunction> {
    return this.functions.deploy(caller, id, funcId, signal);
  }

  @Route('GET', '/projects/{id}/functions/{funcId}/versions', {
    summary: 'List the versions of an edge function',
    description: 'The newest first; the last ten are kept, and the one that is deployed.',
    access: 'functions:read',
    params: FunctionId,
    answer: {
      status: 200,
      description: 'The versions.',
      schema: Type.Array(FunctionVersion),
      example: [{ version: 1, deployed: true, created_at: '2026-01-05T09:00:00.000Z' }],
    },
    problems: NO_FUNCTION,
  })
  listFunctionVersions(@Caller() caller: Principal, @Param() { id, funcId }: FunctionId): Promise<FunctionVersion[]> {
    return this.functions.versions(caller, id, funcId);
  }

  @Route('POST', '/projects/{id}/functions/{funcId}/rollback', {
    summary: 'Roll an edge function back to a version',
    description: 'Answers when callers get that version. The code stays as it is; a deploy brings it back.',
    access: 'functions:write',
    cost: 10,
    params: FunctionId,
    body: Rollback,
    bodyExamples: { first: { version: 1 } },
    answer: { status: 200, description: 'The function.', schema: ListedFunction, example: EXAMPLE_FUNCTION },
    problems: DEPLOY_PROBLEMS,
  })
  rollbackFunction(
    @Caller() caller: Principal,
    @Param() { id, funcId }: FunctionId,
    @Body() { version }: Rollback,
    @CallerSignal() signal: AbortSignal,
  ): Promise<ListedFunction> {
    return this.functions.rollback(caller, id, funcId, version, signal);
  }

  @Route('GET', '/projects/{id}/functions/{funcId}/logs', {
    summary: 'Read what an edge function wrote',
    description: 'The newest lines, oldest first. At most 1000 are kept, and none over a start of the platform.',
    access: 'functions:read',
    params: FunctionId,
    query: LogQuery,
    answer: {
      status: 200,
      description: 'The lines.',
      schema: Type.Array(LogLine),
      example: [{ sequence: 1, time: '2026-01-05T09:00:00.000Z', level: 'info', version: 1, message: 'hello' }],
    },
    problems: NO_FUNCTION,
  })
  readFunctionLogs(
    @Caller() caller: Principal,
    @Param() { id, funcId }: FunctionId,
    @Query() query: LogQuery,
  ): Promise<LogLine[]> {
    return this.functions.readLogs(caller, id, funcId, query);
  }
}
