/** Translates an EdgeFunction into what REST shows of it. Pure. */
import { REASON_UNEXPECTED_ERROR } from '@slipway/installation';
import { Problem, retryLater } from '../http/problem.js';
import type { FullFunction, ListedFunction } from './function.schema.js';
import type { SeenFunction } from './function-resources.js';

export const WAITING = 'waiting for the operator';
const RETRY_SECONDS = 5;

export function refusalOf({ status }: SeenFunction): Problem {
  if (status?.conditions?.some(({ reason }) => reason === REASON_UNEXPECTED_ERROR)) {
    return retryLater('unavailable', `The function could not be deployed: ${status.message}.`, RETRY_SECONDS);
  }
  // The project existed when the request came.
  if (status?.conditions?.some(({ reason }) => reason === 'NoProject')) {
    return new Problem('project_deleting', 'The project is being deleted.');
  }
  const problems = status?.problems ?? [];
  const errors = problems.map(({ message, line, column }) => ({
    field: 'code',
    message: line === undefined ? message : `line ${line}, column ${column}: ${message}`,
  }));
  return new Problem('function_invalid', status?.message ?? 'The function could not be deployed.', {
    errors,
    members: { problems: problemsOf(problems) },
  });
}

type Problems = NonNullable<NonNullable<SeenFunction['status']>['problems']>;
const problemsOf = (problems: Problems) =>
  problems.map(({ message, line, column }) => ({ message, line: line ?? null, column: column ?? null }));

export function viewOf(id: number, { metadata, spec, status }: SeenFunction): ListedFunction {
  return {
    id,
    name: spec.name,
    status: status?.phase ?? 'pending',
    message: status?.message ?? WAITING,
    problems: problemsOf(status?.problems ?? []),
    version: status?.observedGeneration === metadata.generation ? (status.newestVersion ?? null) : null,
    deployed_version: status?.deployedVersion ?? null,
    verify_jwt: spec.verifyJwt ?? true,
    url: status?.url ?? '',
    created_at: metadata.creationTimestamp,
  };
}

export const fullOf = (id: number, object: SeenFunction): FullFunction => ({
  ...viewOf(id, object),
  code: object.spec.code,
});
