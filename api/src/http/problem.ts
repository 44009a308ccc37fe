/**
 * Errors as values. Every error is a Problem of a named kind, thrown by services and documented by `route.ts`;
 * `problem-filter.ts` turns it into an RFC 9457 document.
 */
import Type from 'typebox';
import { Nullable } from './schema.js';

const KINDS = {
  validation_failed: [400, 'The request is not valid'],
  malformed_json: [400, 'The body is not JSON'],
  bad_request: [400, 'The request is not valid'],
  link_invalid: [400, 'The link is not valid'],
  backend_type_unavailable: [400, 'This backend type is not available here'],
  not_reprovisionable: [400, 'The project can not be provisioned again'],
  wrong_type: [400, 'The project has another type'],
  no_repository: [400, 'The project has no repository'],
  no_database: [400, 'The project has no database'],
  sql_error: [400, 'The database refused the statement'],
  result_too_large: [400, 'The result is too large'],
  too_many_statements: [400, 'The SQL has too many statements'],
  function_invalid: [400, 'The function can not be deployed'],
  statement_timeout: [400, 'The statement took too long'],
  unauthorized: [401, 'Authentication is needed'],
  missing_scope: [403, 'The token may not do this'],
  not_allowed: [403, 'The token may not do this'],
  registration_refused: [403, 'This account cannot be registered'],
  registration_code_mailed: [403, 'Registration needs the code that was mailed'],
  account_disabled: [403, 'The account is disabled'],
  plan_not_allowed: [403, 'The account may not use this plan or type'],
  code_required: [403, 'A mailed code is needed'],
  mail_not_configured: [403, 'This installation sends no mail'],
  foreign_origin: [403, 'Pages of this origin may not call the API'],
  project_limit: [403, 'A limit of the account or the project is reached'],
  service_not_available: [403, 'The project does not have this service'],
  token_limit: [403, 'Too many tokens'],
  not_found: [404, 'Not found'],
  method_not_allowed: [405, 'Method not allowed'],
  request_too_slow: [408, 'The request took too long'],
  email_taken: [409, 'The e-mail address is taken'],
  name_taken: [409, 'The name is taken'],
  project_deleting: [409, 'The project is being deleted'],
  project_suspended: [409, 'The project is suspended'],
  project_not_ready: [409, 'The project is not ready'],
  last_administrator: [409, 'The last administrator must stay'],
  account_in_use: [409, 'The account has projects or retained data'],
  conflict: [409, 'Conflict'],
  snapshot_limit: [409, 'Too many snapshots'],
  snapshot_not_ready: [409, 'The snapshot is not complete'],
  restore_pending: [409, 'A restore is in progress'],
  code_limit: [413, 'Too much function code'],
  body_too_large: [413, 'The body is too large'],
  uri_too_long: [414, 'The address is too long'],
  unsupported_media_type: [415, 'Unsupported media type'],
  mail_not_sent: [422, 'The mail was not sent'],
  too_many_requests: [429, 'Too many requests'],
  headers_too_large: [431, 'The headers are too large'],
  caller_gone: [499, 'The caller went away'],
  restart_failed: [500, 'The service could not be restarted'],
  internal_error: [500, 'Something went wrong here'],
  unavailable: [503, 'Not available now'],
} as const satisfies Record<string, readonly [number, string]>;

export type ProblemKind = keyof typeof KINDS;
export type FieldError = { field: string; message: string };

export interface ProblemExtras {
  /** Errors of the request's fields, for a form. */
  errors?: FieldError[];
  headers?: Record<string, string>;
  /** Further members of the document. */
  members?: Record<string, unknown>;
  cause?: unknown;
}

export class Problem extends Error {
  readonly status: number;
  readonly title: string;

  constructor(
    readonly kind: ProblemKind,
    detail: string,
    readonly extras: ProblemExtras = {},
  ) {
    super(detail, extras.cause === undefined ? undefined : { cause: extras.cause });
    [this.status, this.title] = KINDS[kind];
  }

  document(instance: string) {
    return {
      type: `urn:slipway:problem:${this.kind.replaceAll('_', '-')}`,
      title: this.title,
      status: this.status,
      detail: this.message,
      instance,
      code: this.kind,
      ...(this.extras.errors ? { errors: this.extras.errors } : {}),
      ...this.extras.members,
    };
  }
}

/** Returns the kind for an HTTP status without one, such as that of a framework error. */
export function kindOfStatus(status: number): ProblemKind {
  if (status < 500) {
    const kind = (Object.keys(KINDS) as ProblemKind[]).find((name) => KINDS[name][0] === status && !SPECIAL.has(name));
    return kind ?? 'bad_request';
  }
  return status === 503 ? 'unavailable' : 'internal_error';
}
const SPECIAL = new Set<ProblemKind>([
  'mail_not_sent',
  'code_required',
  'link_invalid',
  'validation_failed',
  'malformed_json',
  'missing_scope',
  'foreign_origin',
  'email_taken',
  'name_taken',
  'last_administrator',
  'account_in_use',
  'code_limit',
]);

/** Returns an example document of the status, for the documentation. */
export function exampleProblem(status: number, detail: string, instance: string, kind?: ProblemKind) {
  const example = { 400: 'validation_failed', 403: 'missing_scope' } as const;
  const usual = example[status as keyof typeof example] ?? kindOfStatus(status);
  return new Problem(kind ?? usual, detail).document(instance);
}

export const invalid = (field: string, message: string) => invalidFields([{ field, message }]);

/** An error without a field concerns the whole body. */
export function invalidFields(errors: FieldError[]): Problem {
  const detail = errors.map(({ field, message }) => `${field || 'the body'}: ${message}`).join('; ');
  return new Problem('validation_failed', detail || 'The request is not valid.', { errors });
}

export const missing = (what: string) => new Problem('not_found', `There is no such ${what}.`);

export const retryLater = (
  kind: 'too_many_requests' | 'unavailable',
  detail: string,
  seconds: number,
  options: ErrorOptions = {},
) => new Problem(kind, detail, { ...options, headers: { 'retry-after': String(Math.max(1, Math.ceil(seconds))) } });

export const ProblemDocument = Type.Object(
  {
    type: Type.String({ description: 'A URN that names the kind of problem.' }),
    title: Type.String({ description: 'The kind of problem, for people.' }),
    status: Type.Integer({ description: 'The HTTP status.' }),
    detail: Type.String({ description: 'The problem of this request, and what to do.' }),
    instance: Type.String({ description: 'The path of the request.' }),
    code: Type.Unsafe<ProblemKind>({
      type: 'string',
      enum: Object.keys(KINDS),
      description: 'The kind of problem, for programs.',
    }),
    errors: Type.Optional(
      Type.Array(
        Type.Object({
          field: Type.String({ description: 'The field, its path written with dots.' }),
          message: Type.String({ description: 'The problem of the field.' }),
        }),
        { description: 'Errors by field.' },
      ),
    ),
    problems: Type.Optional(
      Type.Array(
        Type.Object({
          message: Type.String({ description: 'The problem.' }),
          line: Nullable(Type.Integer(), { description: 'Counted from 1; null if unknown.' }),
          column: Nullable(Type.Integer(), { description: 'Counted from 1; null if unknown.' }),
        }),
        { description: 'Problems of code that can not be deployed, with their positions.' },
      ),
    ),
    sqlstate: Type.Optional(Type.String({ description: 'The five-character SQLSTATE of an SQL error.' })),
    position: Type.Optional(Type.Integer({ description: 'The position of an SQL error in characters, from 1.' })),
    sql_detail: Type.Optional(Type.String({ description: 'DETAIL of an SQL error.' })),
    hint: Type.Optional(Type.String({ description: 'HINT of an SQL error.' })),
  },
  { $id: 'Problem', description: 'A problem document (RFC 9457).' },
);
