/**
 * Errors of fields with the messages of the Kubernetes API (`k8s.io/apimachinery/pkg/util/validation/field`), and the
 * Status for the client. Every validator returns these errors, and the HTTP layer sends `invalid(…)`.
 */
export type FieldErrorType =
  | 'FieldValueNotFound'
  | 'FieldValueRequired'
  | 'FieldValueDuplicate'
  | 'FieldValueInvalid'
  | 'FieldValueNotSupported'
  | 'FieldValueForbidden'
  | 'FieldValueTooLong'
  | 'FieldValueTooMany'
  | 'InternalError'
  | 'FieldValueTypeInvalid';

export interface FieldError {
  type: FieldErrorType;
  field: string;
  badValue?: unknown;
  detail: string;
}

export interface Status {
  kind: 'Status';
  apiVersion: 'v1';
  metadata: Record<string, never>;
  status: 'Failure';
  message: string;
  reason: string;
  details?: StatusDetails;
  code: number;
}

export interface StatusDetails {
  name?: string;
  group?: string;
  kind?: string;
  causes?: StatusCause[];
}

export interface StatusCause {
  reason: string;
  message: string;
  field: string;
}

const TITLES: Record<FieldErrorType, string> = {
  FieldValueNotFound: 'Not found',
  FieldValueRequired: 'Required value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueInvalid: 'Invalid value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
  InternalError: 'Internal error',
  FieldValueTypeInvalid: 'Invalid value',
};

/** Types of errors that do not show the value, because it is of no use or too long. */
const VALUELESS = new Set<FieldErrorType>([
  'FieldValueRequired',
  'FieldValueForbidden',
  'FieldValueTooLong',
  'InternalError',
]);

/** Returns the text after `field: `, as in a Status's cause. */
function errorBody({ type, badValue, detail }: FieldError): string {
  const head = VALUELESS.has(type) ? TITLES[type] : `${TITLES[type]}: ${printValue(badValue)}`;
  return detail === '' ? head : `${head}: ${detail}`;
}

export const errorText = (error: FieldError) => `${error.field}: ${errorBody(error)}`;

function printValue(value: unknown): string {
  if (value === undefined || value === null) return 'null';
  if (typeof value === 'string') return JSON.stringify(value);
  return typeof value === 'object' ? goJson(value) : String(value);
}

/** Returns JSON as Go's encoder writes it, with HTML's special characters escaped. */
const goJson = (value: object) =>
  JSON.stringify(value).replaceAll('<', '\\u003c').replaceAll('>', '\\u003e').replaceAll('&', '\\u0026');

/** Returns the 422 with the errors of object `name` of `kind`. */
export function invalid(of: { group: string; kind: string }, name: string, errors: readonly FieldError[]): Status {
  const qualified = of.group === '' ? of.kind : `${of.kind}.${of.group}`;
  const texts = [...new Set(errors.map(errorText))];
  const summary = texts.length === 1 ? texts[0] : `[${texts.join(', ')}]`;
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `${qualified} ${JSON.stringify(name)} is invalid: ${summary}`,
    reason: 'Invalid',
    details: {
      ...(name === '' ? {} : { name }),
      ...(of.group === '' ? {} : { group: of.group }),
      kind: of.kind,
      causes: errors.map((error) => ({ reason: error.type, message: errorBody(error), field: error.field })),
    },
    code: 422,
  };
}
