/** Runs SQL of a caller on a project's database within limits: as the owner role, or read-only as service_role. */

import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import type { Principal } from '../callers/principal.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { projectLimit } from '../projects/project-limit.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { phaseOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';
import { TooManyStatements, TooMuchKept } from '../sql/bounded-query.js';
import { TooMuchReceived } from '../sql/message-guard.js';
import {
  CannotConnect,
  DeadlineReached,
  isLoginShut,
  isWrongPassword,
  MOST_STATEMENTS,
  type QueryOptions,
  type QueryOutcome,
  RECEIVED,
  runQuery,
  STATEMENT_TIMEOUT_MS,
} from '../sql/query-connection.js';
import type { StatementResult } from './query.schema.js';
import { lastResult, resultJson } from './result.js';
import { JSON_LEVELS, TooDeep } from './values.js';

const AT_ONCE_PER_PROJECT = 4;
/**
 * Limits of concurrent queries. The queries use connections of the authenticator, as the data plane does: see
 * CONNECTIONS_AS_AUTHENTICATOR.
 */
const READS_AT_ONCE_PER_PROJECT = 2;
const AT_ONCE = 32;
/** Maximum number of reads of a password that is being replaced while a query logs in. */
const MOST_READINGS = 10;

@Injectable()
export class QueryService {
  private readonly limit = projectLimit('queries', AT_ONCE_PER_PROJECT, AT_ONCE);
  private readonly reads = projectLimit('read-only queries', READS_AT_ONCE_PER_PROJECT, AT_ONCE);

  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
  ) {}

  /** Returns a `QueryResult` as JSON, in pieces. */
  async run(caller: Principal, id: number, sql: string, signal: AbortSignal): Promise<Buffer[]> {
    const { project } = await this.projects.find(caller, id);
    return this.within(project, sql, { mode: 'owner', signal }, resultJson);
  }

  /** Returns the result of the last statement. */
  async runOn(project: SeenProject, sql: string, options: QueryOptions): Promise<StatementResult> {
    return this.within(project, sql, options, lastResult);
  }

  /** Keeps its place in the limit while `make` runs too, because the outcome is in memory. */
  private async within<T>(
    project: SeenProject,
    sql: string,
    options: QueryOptions,
    make: (outcome: QueryOutcome, milliseconds: number) => Promise<T>,
  ): Promise<T> {
    refuseUnready(project);
    const limit = options.mode === 'read only' ? this.reads : this.limit;
    return limit.run(project.metadata.name, async () => {
      const start = performance.now();
      const outcome = await this.withCurrentPassword(project, sql, options);
      return make(outcome, performance.now() - start).catch((error) => {
        throw asProblem(error);
      });
    });
  }

  /**
   * Retries a login whose password was rotated since the Secret was read: the Secret gets a new one before Postgres.
   */
  private async withCurrentPassword(project: SeenProject, sql: string, options: QueryOptions): Promise<QueryOutcome> {
    let tried: Record<string, string> | undefined;
    for (let readings = 1; ; readings++) {
      const credentials = await this.secrets.database(project);
      if (!credentials) throw notReady('its database does not exist yet');
      try {
        return await runQuery(project.metadata.name, credentials, sql, options);
      } catch (error) {
        const isOutdated = isWrongPassword(error) && !isDeepStrictEqual(credentials, tried);
        if (!isOutdated || readings === MOST_READINGS) throw asProblem(error);
        tried = credentials;
      }
    }
  }
}

function refuseUnready(project: SeenProject): void {
  refuseWithoutDatabase(project, 'SQL');
  const phase = phaseOf(project);
  if (phase === 'deleting') throw new Problem('project_deleting', 'The project is being deleted.');
  refuseSuspended(project);
  if (phase === 'suspended') throw notReady('it is being resumed');
  // An unhealthy project may still have a database that answers, and a query is a way to diagnose it.
  if (phase === 'provisioning') throw notReady('it is being provisioned');
}

const notReady = (why: string) =>
  new Problem(
    'project_not_ready',
    `The project is not ready: ${why}. Poll /projects/{id}/status until it is healthy.`,
    {
      headers: { 'retry-after': '1' },
    },
  );

interface DatabaseError {
  severity: string;
  code: string;
  message: string;
  position?: string;
  detail?: string;
  hint?: string;
}

function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof DeadlineReached) return tooSlow();
  if (error instanceof TooMuchReceived || error instanceof TooMuchKept) {
    return new Problem(
      'result_too_large',
      `The result is larger than ${RECEIVED.all >> 20} MiB, one row than ${RECEIVED.message >> 20} MiB, ` +
        'or the columns of all statements are too many. Its changes may or may not be committed: ' +
        'check before you repeat it, and request less, as with LIMIT.',
    );
  }
  if (error instanceof TooManyStatements) {
    return new Problem(
      'too_many_statements',
      `The SQL has more than ${MOST_STATEMENTS} statements. Its changes may or may not be committed: check before ` +
        'you repeat it, and send it in several calls, or insert many rows with one statement.',
    );
  }
  if (error instanceof TooDeep) {
    return new Problem(
      'result_too_large',
      `A JSON value of the result has more than ${JSON_LEVELS} levels. The changes of the SQL are committed. ` +
        'Select less, or its text with ::text.',
    );
  }
  if (isLoginShut(error)) {
    const why =
      'grew far beyond its quota, and is closed. ' +
      'The condition DatabaseHasRoom of GET /projects/{id}/status has the time at which it opens.';
    return new Problem('unavailable', `The project's database ${why}`, {
      headers: { 'retry-after': '60' },
      cause: error,
    });
  }
  if (error instanceof CannotConnect) {
    return new Problem('unavailable', "The project's database does not accept connections now. Try again.", {
      headers: { 'retry-after': '2' },
      cause: error,
    });
  }
  if (isDatabaseError(error) && !isServerEnding(error)) return error.code === '57014' ? tooSlow() : sqlProblem(error);
  return new Problem('unavailable', "The connection to the project's database was lost. Try again.", {
    headers: { 'retry-after': '2' },
    cause: error,
  });
}

const isDatabaseError = (error: unknown): error is DatabaseError =>
  /^[0-9A-Z]{5}$/.test((error as DatabaseError)?.code ?? '') && 'severity' in (error as object);

/** True if the server ended the session: SQL can raise the same codes, but never as FATAL. */
const isServerEnding = ({ severity, code }: DatabaseError): boolean =>
  /^(FATAL|PANIC)$/.test(severity) && /^(57P|08)/.test(code);

const tooSlow = () =>
  new Problem(
    'statement_timeout',
    `The query did not end within ${STATEMENT_TIMEOUT_MS / 1000} seconds and was cancelled.`,
    {
      members: { sqlstate: '57014' },
    },
  );

function sqlProblem({ code, message, position, detail, hint }: DatabaseError): Problem {
  const members = {
    sqlstate: code,
    ...(position ? { position: Number(position) } : {}),
    ...(detail ? { sql_detail: detail } : {}),
    ...(hint ? { hint } : {}),
  };
  return new Problem('sql_error', message, { members });
}
