/**
 * Runs a person's SQL on their project's database within bounds: as its owner role, or to read only as service_role.
 */
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import type { Principal } from '../access/principal.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { ConcurrencyLimit } from '../projects/concurrency-limit.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { hasDatabase, phaseOf, typeOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import { type StatementOutcome, TooMuchKept } from './bounded-query.js';
import { TooMuchReceived } from './message-guard.js';
import type { QueryResult, StatementResult } from './query.schema.js';
import {
  CannotConnect,
  DeadlineReached,
  isWrongPassword,
  type QueryOptions,
  type QueryOutcome,
  RECEIVED,
  runQuery,
  STATEMENT_TIMEOUT_MS,
} from './query-connection.js';
import { JSON_LEVELS, jsonValue, TooDeep, typeName } from './values.js';

const AT_ONCE_PER_PROJECT = 4;
/** They share the authenticator's connections with the data plane: CONNECTIONS_AS_AUTHENTICATOR has the share. */
const READS_AT_ONCE_PER_PROJECT = 2;
const AT_ONCE = 32;
/** Readings of a password that is replaced during a login. */
const MOST_READINGS = 10;

@Injectable()
export class QueryService {
  private readonly limit = new ConcurrencyLimit('queries', AT_ONCE_PER_PROJECT, AT_ONCE);
  private readonly reads = new ConcurrencyLimit('read-only queries', READS_AT_ONCE_PER_PROJECT, AT_ONCE);

  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
  ) {}

  async run(caller: Principal, id: number, sql: string, signal: AbortSignal): Promise<QueryResult> {
    return this.runOn((await this.projects.find(caller, id)).project, sql, { mode: 'as it is', signal });
  }

  async runOn(project: SeenProject, sql: string, options: QueryOptions): Promise<QueryResult> {
    refuseUnready(project);
    const limit = options.mode === 'read only' ? this.reads : this.limit;
    return limit.run(project.metadata.name, () => this.withCurrentPassword(project, sql, options));
  }

  /** Postgres may have been given another password since ours was read: the Secret has had it before. */
  private async withCurrentPassword(project: SeenProject, sql: string, options: QueryOptions): Promise<QueryResult> {
    let tried: Record<string, string> | undefined;
    for (let readings = 1; ; readings++) {
      const credentials = await this.secrets.database(project);
      if (!credentials) throw notReady('its database is not there yet');
      const start = performance.now();
      try {
        return answer(await runQuery(project.metadata.name, credentials, sql, options), performance.now() - start);
      } catch (error) {
        const isOutdated = isWrongPassword(error) && !isDeepStrictEqual(credentials, tried);
        if (!isOutdated || readings === MOST_READINGS) throw asProblem(error);
        tried = credentials;
      }
    }
  }
}

function refuseUnready(project: SeenProject): void {
  if (!hasDatabase(project)) throw new Problem('no_database', `A ${typeOf(project)} project has no database.`);
  const phase = phaseOf(project);
  if (phase === 'deleting') throw new Problem('project_deleting', 'The project is being deleted.');
  refuseSuspended(project);
  if (phase === 'suspended') throw notReady('it is being resumed');
  // One that fell ill may still have a database that answers, and a query is how to look.
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

function answer({ statements, typeNames }: QueryOutcome, milliseconds: number): QueryResult {
  const results = statements.map((statement) => resultOf(statement, typeNames));
  const last = results.at(-1) ?? { columns: [], rows: [], row_count: 0, command: '', truncated: false };
  return { ...last, duration_ms: Math.round(milliseconds * 100) / 100, results };
}

function resultOf(
  { fields, rows, command, count, truncated }: StatementOutcome,
  typeNames: Map<number, string>,
): StatementResult {
  const names = distinct(fields.map(({ name }) => name));
  const oids = fields.map(({ dataTypeID }) => dataTypeID);
  return {
    columns: names.map((name, index) => ({ name, type: nameOfType(oids[index] as number, typeNames) })),
    rows: rows.map((row) =>
      Object.fromEntries(row.map((text, index) => [names[index], jsonValue(text, oids[index] as number)])),
    ),
    row_count: fields.length > 0 ? rows.length : count,
    command,
    truncated,
  };
}

const nameOfType = (oid: number, names: Map<number, string>) => typeName(oid) ?? names.get(oid) ?? `oid ${oid}`;

/** A name that comes again is given a number, so that no column is lost from a row. */
function distinct(names: string[]): string[] {
  const taken = new Set(names);
  const seen = new Set<string>();
  const numbers = new Map<string, number>();
  return names.map((name) => {
    let free = name;
    let number = numbers.get(name) ?? 2;
    if (seen.has(name)) {
      while (taken.has(`${name}_${number}`)) number += 1;
      free = `${name}_${number}`;
      numbers.set(name, number + 1);
    }
    seen.add(free);
    taken.add(free);
    return free;
  });
}

interface DatabaseError {
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
      `The result is larger than ${RECEIVED.all >> 20} MiB, one row than ${RECEIVED.message >> 20} MiB, or the columns of all statements are too many. What it changed may or may not have been committed: look before you repeat it, and ask for less, as with LIMIT.`,
    );
  }
  if (error instanceof TooDeep) {
    return new Problem(
      'result_too_large',
      `A JSON value of the result is nested in more than ${JSON_LEVELS} levels. What the SQL changed is changed: ask for less, or for its text with ::text.`,
    );
  }
  if (error instanceof CannotConnect) {
    return new Problem('unavailable', "The project's database does not accept connections now. Try again.", {
      headers: { 'retry-after': '2' },
      cause: error,
    });
  }
  if (isDatabaseError(error)) return error.code === '57014' ? tooSlow() : sqlProblem(error);
  return new Problem('unavailable', "The connection to the project's database was lost. Try again.", {
    headers: { 'retry-after': '2' },
    cause: error,
  });
}

const isDatabaseError = (error: unknown): error is DatabaseError =>
  /^[0-9A-Z]{5}$/.test((error as DatabaseError)?.code ?? '') && 'severity' in (error as object);

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
