/**
 * Declares a handler's route: method, path, access, and the TypeBox schemas of its input and responses. The checks of
 * `route-interceptor.ts`, the scope that `access/access-guard.ts` needs, and the operation in `/openapi.json` derive
 * from it.
 */
import { applyDecorators, HttpCode, RequestMapping, RequestMethod, SetMetadata } from '@nestjs/common';
import {
  ApiBearerAuth,
  ApiBody,
  ApiConsumes,
  ApiOperation,
  ApiParam,
  ApiQuery,
  ApiResponse,
  ApiSecurity,
} from '@nestjs/swagger';
import type { TObject, TSchema } from 'typebox';
import { exampleProblem, ProblemDocument, type ProblemKind } from './problem.js';
import { openApiSchema } from './schema.js';
import type { Scope } from './scopes.js';
import { bodyCheck, type Check, textCheck } from './validation.js';

export interface RouteOptions {
  summary: string;
  description?: string;
  /**
   * Access to the route. `none`: everybody. `apikey`: a key of the project, verified by the handler. `ticket`: the
   * ticket of a build, likewise. `user`: a user token, not a personal access token. Otherwise: a bearer token with this
   * scope.
   */
  access: 'none' | 'apikey' | 'ticket' | 'user' | Scope;
  /**
   * Accepts a webhook of a project too, proved by the query parameter `token` or one of these headers. The handler
   * verifies the proof.
   */
  webhookHeaders?: readonly string[];
  /** Units of the account's budget that a request costs (`request-limits.ts`). Default: 1. */
  cost?: number;
  params?: TObject;
  query?: TObject;
  body?: TSchema;
  /** The handler checks the body itself, because the protocol inside the route has its own errors. */
  ownBodyCheck?: true;
  /**
   * Content types of a body that the handler reads itself, or that is optional. Default: a required JSON body. Without
   * `ownBodyCheck`, a missing body is checked as `{}`.
   */
  optionalBodyAs?: string[];
  bodyExamples?: Record<string, unknown>;
  /** Content type of the response. Default: JSON. */
  answer: ContentAnswer | { status: 204; description: string };
  /** Responses without content, by status. */
  emptyAnswers?: Record<number, string>;
  /**
   * Problems beyond those that follow from the members above, by status. `kind` chooses the example if a status has
   * many.
   */
  problems?: Record<number, string | { kind: ProblemKind; text: string }>;
  /**
   * Statuses of problems whose body may also have the response's schema, because the protocol inside the route has its
   * own errors.
   */
  answerErrors?: number[];
  links?: Record<string, { operationId: string; parameters: Record<string, string>; description: string }>;
}
interface ContentAnswer {
  status: 200 | 201 | 202;
  description: string;
  schema: TSchema;
  example: unknown;
  headers?: ResponseHeaders;
  contentType?: string;
}
type ResponseHeaders = Record<string, { description: string; schema: { type: 'string' | 'integer' } }>;

export interface RouteRule {
  access: RouteOptions['access'];
  cost: number;
  webhookHeaders: readonly string[] | undefined;
  checks: { params?: Check; query?: Check; body?: Check };
}
export const ROUTE = 'slipway:route';

/** The schemas with an `$id`, for `components` of the OpenAPI document. */
export const components: Record<string, unknown> = {};
const known: { method: string; pattern: RegExp }[] = [];

/** Returns the methods of `path`, for a 405. */
export const methodsOf = (path: string) =>
  known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);

/** Records a route that has no handler with `@Route`. */
export function know(method: Method, path: string): void {
  known.push({ method, pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}/?$`) });
}

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE';

/**
 * Declares the route of a handler. `path` is in OpenAPI's form, `/projects/{id}`; the handler's name is the operation's
 * id.
 */
export function Route(method: Method, path: string, options: RouteOptions): MethodDecorator {
  know(method, path);
  return applyDecorators(
    RequestMapping({ method: RequestMethod[method], path: path.replaceAll(/\{(\w+)\}/g, ':$1') }),
    HttpCode(options.answer.status),
    SetMetadata(ROUTE, ruleOf(options)),
    ...documented(path, options),
  );
}

function ruleOf(options: RouteOptions): RouteRule {
  const { access, cost = 1, webhookHeaders, params, query, body, ownBodyCheck, optionalBodyAs } = options;
  const checks: RouteRule['checks'] = {};
  if (params) checks.params = textCheck(params);
  if (query) checks.query = textCheck(query);
  if (body && !ownBodyCheck) checks.body = bodyCheck(body, optionalBodyAs && {});
  return { access, cost, webhookHeaders, checks };
}

function documented(path: string, options: RouteOptions): (MethodDecorator & ClassDecorator)[] {
  const { summary, description, access } = options;
  const needs = needsOf(access);
  const text = [description, needs].filter(Boolean).join('\n\n');
  return [
    ApiOperation({ summary, description: text, ...(access === 'none' ? { security: [] } : {}) }) as MethodDecorator &
      ClassDecorator,
    ...(access === 'apikey' || access === 'ticket' ? [ApiSecurity(access)] : []),
    ...(isBearer(access) ? [ApiBearerAuth('bearer')] : []),
    ...(options.webhookHeaders ? [ApiSecurity('webhook')] : []),
    ...inputs(options),
    ...answers(options, path.replaceAll(/\{\w+\}/g, '1')),
  ];
}

const isBearer = (access: RouteOptions['access']) => !['none', 'apikey', 'ticket'].includes(access);

function needsOf(access: RouteOptions['access']): string {
  if (access === 'user') return 'It takes a user token; a personal access token is a 403.';
  return isBearer(access) ? `A personal access token needs the scope \`${access}\`.` : '';
}

function inputs({
  params,
  query,
  body,
  bodyExamples,
  optionalBodyAs,
}: RouteOptions): (MethodDecorator & ClassDecorator)[] {
  const inPath = propertiesOf(params).map(({ name, schema, description }) =>
    ApiParam({ name, description, schema: schema as never }),
  );
  const inQuery = propertiesOf(query).map(({ name, schema, description, required }) =>
    ApiQuery({ name, description, required, schema: schema as never }),
  );
  const examples = Object.fromEntries(Object.entries(bodyExamples ?? {}).map(([name, value]) => [name, { value }]));
  const inBody = body
    ? [
        ApiBody({
          required: !optionalBodyAs,
          schema: openApiSchema(body, components) as never,
          examples: examples as never,
        }),
      ]
    : [];
  const forms = optionalBodyAs ? [ApiConsumes(...optionalBodyAs)] : [];
  return [...inPath, ...inQuery, ...inBody, ...forms] as (MethodDecorator & ClassDecorator)[];
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
  const { answer, answerErrors = [] } = options;
  const schema = 'schema' in answer ? answer.schema : undefined;
  const success = { ...successOf(answer), links: options.links ?? {} };
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

function successOf(answer: RouteOptions['answer']) {
  if (!('schema' in answer)) return { ...answer, headers: {} };
  const { status, description, schema, example, headers = {}, contentType = 'application/json' } = answer;
  const content = { [contentType]: { schema: openApiSchema(schema, components), example } };
  return { status, description, content, headers };
}

function impliedProblems({ access, params, query, body }: RouteOptions): Record<number, string> {
  return {
    ...(params || query || body
      ? { 400: 'A parameter or the body is not valid; `errors` says which field and why.' }
      : {}),
    ...(isBearer(access)
      ? {
          401: 'No token was sent, or it is not valid.',
          403: access === 'user' ? 'The token is a personal access token.' : 'The token is missing the named scope.',
        }
      : {}),
    ...(body ? { 413: 'The body is larger than 1 MiB.', 415: 'The body is not `application/json`.' } : {}),
    429: 'Too many requests of this account, or from this network; `Retry-After` has the seconds to wait.',
    503: 'A needed part of the platform does not respond; `Retry-After` has the seconds to wait.',
  };
}

const HEADERS_OF: Record<number, ResponseHeaders> = {
  401: { 'WWW-Authenticate': { description: 'The scheme to send: Bearer, or apikey.', schema: { type: 'string' } } },
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
