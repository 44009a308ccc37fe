/**
 * Rotates the credentials of a project that changed hands between two accounts, so that the former owner's are worth
 * nothing. In: a row and its Project, both read just now by `project-ids.ts`. A rotation of the JWT secret leaves the
 * secret before it valid until the next, so there are two: step 1 asks for the first, step 2 waits until it is done and
 * asks for the second, step 3 ends the sessions of the database's login. Each patch names the resourceVersion that was
 * read before the row, so that no replica repeats a step of another. After a crash, the next look continues from the
 * row.
 */
import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { LOG } from '../platform.js';
import { runQuery } from '../query/query-connection.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { SecretsOfProjects } from './project-secrets.js';
import type { ProjectRow } from './projects.repository.js';

const MAX_ROTATION = 2_147_483_647;
const END_SESSIONS_MS = 10_000;
const LAST_STEP = 3;
const MOST_RETRIES = 10_000;
const FIRST_RETRY_MS = 30_000;
const LONGEST_RETRY_MS = 600_000;
/**
 * The former owner may have set a search path, or another role, for each session of the login. A session of the login
 * ends any other of it; `pg_stat_activity` is not for tenants, so the backends are found by their ids.
 */
const END_SESSIONS = `set role none; set search_path = pg_catalog;
  select pg_terminate_backend(pg_stat_get_backend_pid(id)) from pg_stat_get_backend_idset() as id
  where pg_stat_get_backend_userid(id) = quote_ident(session_user)::regrole::oid
    and pg_stat_get_backend_pid(id) <> pg_backend_pid()`;

@Injectable()
export class ProjectTransfers {
  /** By id of the project, when its database's sessions may be tried again. */
  private readonly retries = new Map<number, { delay: number; at: number }>();

  constructor(
    private readonly owners: ProjectOwnersRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly secrets: SecretsOfProjects,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async advance(row: ProjectRow, project: SeenProject): Promise<void> {
    if (row.rotationStep === 0 || project.metadata.deletionTimestamp) return;
    const [keys = {}, database = {}] = await Promise.all([this.secrets.keys(project), this.secrets.database(project)]);
    if (row.rotationStep === LAST_STEP) return this.endSessions(row, project, database);
    const number =
      row.rotationNumber ?? (await this.owners.numberRotation(row.id, nextNumber(project, { keys, database })));
    if (number === undefined) return;
    if (row.rotationStep === 1) await this.begin(row, project, number);
    else await this.finish(row, project, { number, keys, database });
  }

  private async begin(row: ProjectRow, project: SeenProject, number: number): Promise<void> {
    const rotation = { jwtSecret: number, databasePasswords: number };
    // A secret that the former owner brought is not the operator's to rotate.
    if (!(await this.patch(project, { rotation, jwtSecretRef: null }))) return;
    await this.secrets.changeWebhookSecret(project, randomBytes(32).toString('base64url'));
    await this.owners.setRotationStep(row.id, 2);
    this.log.info({ ref: row.ref, rotation: number }, 'rotation of a transferred project begun');
  }

  private async finish(row: ProjectRow, project: SeenProject, { number, keys, database }: Begun): Promise<void> {
    const { rotation = {} } = project.spec;
    const made = Number(keys[SECRETS.keys.jwtSecretRotation] ?? 0);
    const isDone = isSince(number, made) && isSince(number, Number(database[SECRETS.database.passwordsRotation] ?? 0));
    if (!isDone) return this.askAgain(project, number);
    // Killed after the patch, or an owner rotated since: a further one is asked for already.
    const isAsked = isSince(after(made), rotation.jwtSecret ?? 0);
    if (!isAsked && !(await this.patch(project, { rotation: { jwtSecret: after(made) } }))) return;
    await this.owners.setRotationStep(row.id, LAST_STEP);
    this.log.info({ ref: row.ref, rotation: after(made) }, 'rotation of a transferred project finished');
    await this.endSessions(row, project, database);
  }

  /** The numbers may have been removed from the spec before the operator saw them. */
  private async askAgain(project: SeenProject, number: number): Promise<void> {
    const { jwtSecret = 0, databasePasswords = 0 } = project.spec.rotation ?? {};
    const rotation = {
      ...(isSince(number, jwtSecret) ? {} : { jwtSecret: number }),
      ...(isSince(number, databasePasswords) ? {} : { databasePasswords: number }),
    };
    if (Object.keys(rotation).length > 0) await this.patch(project, { rotation });
  }

  /**
   * A password that changed ends no session that was open before. A former owner may hold every connection slot of the
   * login.
   */
  private async endSessions(row: ProjectRow, project: SeenProject, database: Record<string, string>): Promise<void> {
    const retry = this.retries.get(row.id);
    if (retry && performance.now() < retry.at) return;
    try {
      // A suspended project's database has no sessions, and takes none.
      if (!project.spec.suspend) await this.runEnd(row.ref, database);
      await this.owners.setRotationStep(row.id, 0);
      this.retries.delete(row.id);
    } catch (error) {
      const delay = Math.min(retry ? retry.delay * 2 : FIRST_RETRY_MS, LONGEST_RETRY_MS);
      this.noteRetry(row.id, delay);
      const message = 'database sessions of the former owner not ended; a later look tries again';
      this.log.warn({ err: error, ref: row.ref }, message);
    }
  }

  private runEnd(ref: string, database: Record<string, string>): Promise<unknown> {
    const signal = AbortSignal.timeout(END_SESSIONS_MS);
    return runQuery(ref, database, END_SESSIONS, { mode: 'as it is', signal, deadline: END_SESSIONS_MS });
  }

  private noteRetry(id: number, delay: number): void {
    this.retries.delete(id);
    this.retries.set(id, { delay, at: performance.now() + delay });
    const [oldest] = this.retries.keys();
    if (this.retries.size > MOST_RETRIES && oldest !== undefined) this.retries.delete(oldest);
  }

  /** False where the Project was deleted. Fails with a 409 where it was changed since it was read. */
  private async patch({ metadata }: SeenProject, spec: object): Promise<boolean> {
    const { name, uid, resourceVersion } = metadata;
    const patched = await this.kubernetes.patchProject(name, { metadata: { uid, resourceVersion }, spec });
    if (patched) this.cache.put(patched);
    return patched !== undefined;
  }
}

interface Begun {
  number: number;
  keys: Record<string, string>;
  database: Record<string, string>;
}

const after = (number: number) => (number >= MAX_ROTATION ? 0 : number + 1);

/** Whether `number` is `first` or one of the few that follow it. Numbers begin anew at 1. */
const isSince = (first: number, number: number) => number >= first && number - first < 1000;

/** Another than those of the credentials there are, whatever was removed from the spec since they were made. */
function nextNumber({ spec: { rotation = {} } }: SeenProject, { keys, database }: Omit<Begun, 'number'>): number {
  const largest = Math.max(
    rotation.jwtSecret ?? 0,
    rotation.databasePasswords ?? 0,
    Number(keys[SECRETS.keys.jwtSecretRotation] ?? 0),
    Number(keys[SECRETS.keys.nextJwtSecretRotation] ?? 0),
    Number(database[SECRETS.database.passwordsRotation] ?? 0),
    Number(database[SECRETS.database.nextPasswordsRotation] ?? 0),
  );
  return largest >= MAX_ROTATION - 1 ? 1 : largest + 1;
}
