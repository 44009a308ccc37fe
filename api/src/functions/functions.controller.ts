import { Body, Controller, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
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

const NO_DATABASE = { 400: 'The project has no database, or a parameter or the body is not valid.' };
const UNUSABLE = { ...NO_DATABASE, ...NO_PROJECT };
const NO_FUNCTION = { ...NO_DATABASE, 404: 'There is no such project or function, or it is not yours.' };
const FULL_EXAMPLE = { ...EXAMPLE_FUNCTION, code: EXAMPLE_CODE };
const TOO_MUCH_CODE = {
  413: 'The body is larger than 1 MiB, or the code of all functions would exceed its limit (`code_limit`).',
};
const DEPLOY_PROBLEMS = {
  ...NO_FUNCTION,
  400: 'The code can not be deployed: `problems` says why, with line and column. Callers keep the former version.',
  409: { kind: 'conflict', text: 'Other requests change it at the same time.' },
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
      description: 'The functions of the project, without their code.',
      schema: Type.Array(ListedFunction),
      example: [EXAMPLE_FUNCTION],
    },
    problems: UNUSABLE,
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
      ...UNUSABLE,
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
    @Body() input: NewFunction,
  ): Promise<FullFunction> {
    return this.functions.create(caller, id, input);
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
    answer: { status: 200, description: 'The function is deleted.', schema: OK, example: { ok: true } },
    problems: NO_FUNCTION,
  })
  async deleteFunction(@Caller() caller: Principal, @Param() { id, funcId }: FunctionId): Promise<Ok> {
    await this.functions.remove(caller, id, funcId);
    return { ok: true };
  }

  @Route('POST', '/projects/{id}/functions/{funcId}/deploy', {
    summary: 'Deploy an edge function',
    description: 'Responds once callers get the present code. No call fails during the deploy.',
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
    description: 'The newest first; the last ten are retained, and the deployed one.',
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
    description: 'Responds once callers get that version. The saved code does not change; a deploy serves it again.',
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
    summary: 'Read the logs of an edge function',
    description: 'The newest lines, oldest first. At most 1000 are retained, and a restart of the platform drops them.',
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
