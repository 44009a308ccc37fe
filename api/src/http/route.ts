/**
 * One decorator a handler: its method and path, who may call it, and the TypeBox schemas of all that it takes and
 * answers. From these come the checks that `route-interceptor.ts` makes, the scope that `access/access-guard.ts` asks
 * for, and the operation in `/openapi.json`: there is no second place to keep in step.
 */
import { applyDecorators, HttpCode, RequestMapping, RequestMethod, SetMetadata } from '@nestjs/common';
import { ApiBearerAuth, ApiBody, ApiOperation, ApiParam, ApiQuery, ApiResponse, ApiSecurity } from '@nestjs/swagger';
import type { TObject, TSchema } from 'typebox';
import type { Scope } from '../access/scopes.js';
import { exampleProblem, ProblemDocument, type ProblemKind } from './problem.js';
import { openApiSchema } from './schema.js';
import { bodyCheck, type Check, textCheck } from './validation.js';

export interface RouteOptions {
  summary: string;
  description?: string;
  /**
   * `none`: for everybody; `apikey`: a key of the project, which the handler proves; `user`: a user token, and no
   * personal access token; otherwise a bearer token with this scope.
   */
  access: 'none' | 'apikey' | 'user' | Scope;
  /** Units of its account's budget that a request takes (`request-limits.ts`). Default: 1. */
  cost?: number;
  params?: TObject;
  query?: TObject;
  body?: TSchema;
  /** The handler checks the body itself: the protocol inside the route says in its own words what is wrong. */
  ownBodyCheck?: true;
  bodyExamples?: Record<string, unknown>;
  answer: { status: 200 | 201; description: string; schema: TSchema; example: unknown; headers?: ResponseHeaders };
  /** Answers without content beside it, by status. */
  emptyAnswers?: Record<number, string>;
  /**
   * Problems beyond those that follow from the above, by status; with the kind for the example, if a status has many.
   */
  problems?: Record<number, string | { kind: ProblemKind; text: string }>;
  /**
   * Statuses of problems that may also carry the answer's schema, as the protocol inside the route has errors of its
   * own.
   */
  answerErrors?: number[];
  links?: Record<string, { operationId: string; parameters: Record<string, string>; description: string }>;
}
type ResponseHeaders = Record<string, { description: string; schema: { type: 'string' | 'integer' } }>;

export interface RouteRule {
  access: RouteOptions['access'];
  cost: number;
  checks: { params?: Check; query?: Check; body?: Check };
}
export const ROUTE = 'slipway:route';

/** The schemas with an `$id`, for `components` of the document. */
export const components: Record<string, unknown> = {};
const known: { method: string; pattern: RegExp }[] = [];

/** The methods that `path` has, for a 405 where another was used. */
export const methodsOf = (path: string) =>
  known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);

/** Called from elsewhere for a route that no handler with `@Route` serves. */
export function know(method: Method, path: string): void {
  known.push({ method, pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`) });
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/** `path` is written as OpenAPI does, `/projects/{id}`; the operation is named after the handler. */
export function Route(method: Method, path: string, options: RouteOptions): MethodDecorator {
  know(method, path);
  return applyDecorators(
    RequestMapping({ method: RequestMethod[method], path: path.replaceAll(/\{(\w+)\}/g, ':$1') }),
    HttpCode(options.answer.status),
    SetMetadata(ROUTE, ruleOf(options)),
    ...documented(path, options),
  );
}

function ruleOf({ access, cost = 1, params, query, body, ownBodyCheck }: RouteOptions): RouteRule {
  const checks: RouteRule['checks'] = {};
  if (params) checks.params = textCheck(params);
  if (query) checks.query = textCheck(query);
  if (body && !ownBodyCheck) checks.body = bodyCheck(body);
  return { access, cost, checks };
}

function documented(path: string, options: RouteOptions): (MethodDecorator & ClassDecorator)[] {
  const { summary, description, access } = options;
  const needs = needsOf(access);
  const text = [description, needs].filter(Boolean).join('\n\n');
  return [
    ApiOperation({ summary, description: text, ...(access === 'none' ? { security: [] } : {}) }) as MethodDecorator &
      ClassDecorator,
    ...(access === 'apikey' ? [ApiSecurity('apikey')] : []),
    ...(isBearer(access) ? [ApiBearerAuth('bearer')] : []),
    ...inputs(options),
    ...answers(options, path.replaceAll(/\{\w+\}/g, '1')),
  ];
}

const isBearer = (access: RouteOptions['access']) => access !== 'none' && access !== 'apikey';

function needsOf(access: RouteOptions['access']): string {
  if (access === 'user') return 'It takes a user token; a personal access token is a 403.';
  return isBearer(access) ? `A personal access token needs the scope \`${access}\`.` : '';
}

function inputs({ params, query, body, bodyExamples }: RouteOptions): (MethodDecorator & ClassDecorator)[] {
  const inPath = propertiesOf(params).map(({ name, schema, description }) =>
    ApiParam({ name, description, schema: schema as never }),
  );
  const inQuery = propertiesOf(query).map(({ name, schema, description, required }) =>
    ApiQuery({ name, description, required, schema: schema as never }),
  );
  const examples = Object.fromEntries(Object.entries(bodyExamples ?? {}).map(([name, value]) => [name, { value }]));
  const inBody = body
    ? [ApiBody({ required: true, schema: openApiSchema(body, components) as never, examples: examples as never })]
    : [];
  return [...inPath, ...inQuery, ...inBody] as (MethodDecorator & ClassDecorator)[];
}

function propertiesOf(object: TObject | undefined) {
  if (!object) return [];
  const required = (object as unknown as { required?: string[] }).required ?? [];
  return Object.entries(object.properties as Record<string, TSchema>).map(([name, schema]) => ({
    name,
    required: required.includes(name),
    description: (schema as { description?: string }).description ?? '',
    schema: openApiSchema(schema, components),
  }));
}

function answers(options: RouteOptions, examplePath: string) {
  const { status, description, schema, example, headers } = options.answer;
  const { answerErrors = [] } = options;
  const content = { 'application/json': { schema: openApiSchema(schema, components), example } };
  const success = { status, description, content, headers: headers ?? {}, links: options.links ?? {} };
  const problems = { ...impliedProblems(options), ...options.problems };
  return [
    ApiResponse(success as never),
    ...Object.entries(options.emptyAnswers ?? {}).map(([empty, text]) =>
      ApiResponse({ status: Number(empty), description: text }),
    ),
    ...Object.entries(problems).map(([status, problem]) => {
      const also = answerErrors.includes(Number(status)) ? schema : undefined;
      return ApiResponse(problemResponse(Number(status), problem, examplePath, also) as never);
    }),
  ];
}

function impliedProblems({ access, params, query, body }: RouteOptions): Record<number, string> {
  return {
    ...(params || query || body
      ? { 400: 'A parameter or the body is not valid; `errors` says which field and why.' }
      : {}),
    ...(isBearer(access)
      ? {
          401: 'No token was sent, or it is not valid (any more).',
          403: access === 'user' ? 'The token is a personal access token.' : 'The token lacks the scope that is named.',
        }
      : {}),
    ...(body ? { 413: 'The body is larger than 1 MiB.', 415: 'The body is not `application/json`.' } : {}),
    429: 'Too many requests of this account, or from this network; `Retry-After` says when to try again.',
    503: 'A part that is needed for this does not answer now; `Retry-After` says when to try again.',
  };
}

const HEADERS_OF: Record<number, ResponseHeaders> = {
  401: { 'WWW-Authenticate': { description: 'What to send: Bearer, or apikey.', schema: { type: 'string' } } },
  429: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } },
  503: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } },
};

type DocumentedProblem = NonNullable<RouteOptions['problems']>[number];

function problemResponse(status: number, problem: DocumentedProblem, instance: string, other: TSchema | undefined) {
  const { text, kind } = typeof problem === 'string' ? { text: problem, kind: undefined } : problem;
  return {
    status,
    description: text,
    headers: HEADERS_OF[status] ?? {},
    content: {
      'application/problem+json': {
        schema: openApiSchema(ProblemDocument, components),
        example: exampleProblem(status, text, instance, kind),
      },
      ...(other ? { 'application/json': { schema: openApiSchema(other, components) } } : {}),
    },
  };
}
