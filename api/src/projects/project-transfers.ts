/**
 * Rotates the credentials of a project that changed hands between two accounts, and removes the secrets for the former
 * owner's git host and Slack. In: a row and its Project, both read just now by `project-ids.ts`.
 * A rotation of the JWT secret leaves the former secret valid until the next one, so there are two. Step 1 requests the
 * first. Step 2 waits until it is done, and requests the second. Step 3 ends the sessions of the database's login. Each
 * patch names the resourceVersion that was read before the row, so that no replica repeats a step. After a crash, the
 * next comparison continues from the row.
 */
import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { isSuspended } from '@slipway/crds';
import { SECRETS } from '@slipway/installation';
import { delayOf } from '@slipway/program';
import type { Logger } from 'pino';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { Outbox } from '../outbox/outbox.js';
import { LOG } from '../settings/injected.js';
import { runQuery } from '../sql/query-connection.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { SecretsOfProjects } from './project-secrets.js';
import { hasDatabase } from './project-view.js';
import type { ProjectRow } from './projects.repository.js';
import { MAX_ROTATION, nextNumber } from './rotation.js';

/** The credentials that a transfer rotates. */
const ROTATED = ['jwt_secret', 'database_passwords'] as const;
const END_SESSIONS_MS = 10_000;
const LAST_STEP = 3;
const MOST_RETRIES = 10_000;
const RETRIES = { firstMs: 30_000, maxMs: 600_000, jitter: 0 };
/**
 * Ends all other sessions of the login. The former owner may have set a search path, or another role, for its sessions.
 * `pg_stat_activity` is hidden from tenants, so the backends are found by their ids.
 */
const END_SESSIONS = `set role none; set search_path = pg_catalog;
  select pg_terminate_backend(pg_stat_get_backend_pid(id)) from pg_stat_get_backend_idset() as id
  where pg_stat_get_backend_userid(id) = quote_ident(session_user)::regrole::oid
    and pg_stat_get_backend_pid(id) <> pg_backend_pid()`;

@Injectable()
export class ProjectTransfers {
  /** Next attempt to end a database's sessions, by id of the project. */
  private readonly retries = new Map<number, { failures: number; at: number }>();

  constructor(
    private readonly owners: ProjectOwnersRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly secrets: SecretsOfProjects,
    private readonly outbox: Outbox,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async advance(row: ProjectRow, project: SeenProject): Promise<void> {
    if (row.rotationStep === 0 || project.metadata.deletionTimestamp) return;
    if (!hasDatabase(project)) return this.transferWithoutDatabase(row, project);
    const [keys = {}, database = {}] = await Promise.all([this.secrets.keys(project), this.secrets.database(project)]);
    if (row.rotationStep === LAST_STEP) return this.endSessions(row, project, database);
    const number =
      row.rotationNumber ??
      (await this.owners.numberRotation(row.id, nextNumber(project, { keys, database }, ROTATED)));
    if (number === undefined) return;
    if (row.rotationStep === 1) await this.begin(row, project, number);
    else await this.finish(row, project, { number, keys, database });
  }

  private async begin(row: ProjectRow, project: SeenProject, number: number): Promise<void> {
    const rotation = { jwtSecret: number, databasePasswords: number };
    // The operator does not rotate a JWT secret that the former owner brought, so it is replaced.
    if (!(await this.replaceOwnersSecrets(row, project, { rotation, jwtSecretRef: null }))) return;
    await this.owners.setRotationStep(row.id, 2);
    this.log.info({ ref: row.ref, rotation: number }, 'rotation of a transferred project begun');
  }

  private async transferWithoutDatabase(row: ProjectRow, project: SeenProject): Promise<void> {
    if (!(await this.replaceOwnersSecrets(row, project, {}))) return;
    await this.owners.endRotation(row.id);
    this.log.info({ ref: row.ref }, 'secrets of a transferred project replaced');
  }

  /**
   * Patches the spec, removes the secrets for the former owner's git host and Slack, the webhooks of the former owner
   * and the signing keys of auth, which the former owner knows, and changes the webhook secret.
   * Returns false if the Project was deleted. After a crash, all of it is repeated.
   */
  private async replaceOwnersSecrets(row: ProjectRow, project: SeenProject, spec: object): Promise<boolean> {
    if (!(await this.patch(project, { ...spec, ...withoutOwnersSecrets(project) }))) return false;
    await this.secrets.remove(project, SECRETS.git.name);
    await this.secrets.remove(project, SECRETS.notifications.name);
    await this.outbox.removeReceivers(row.id);
    await this.secrets.removeSigningKeys(project);
    await this.secrets.changeWebhookSecret(project, randomBytes(32).toString('base64url'));
    return true;
  }

  private async finish(row: ProjectRow, project: SeenProject, { number, keys, database }: Begun): Promise<void> {
    const { rotation = {} } = project.spec;
    const made = Number(keys[SECRETS.keys.jwtSecretRotation] ?? 0);
    const isDone = isSince(number, made) && isSince(number, Number(database[SECRETS.database.passwordsRotation] ?? 0));
    if (!isDone) return this.askAgain(project, number);
    // After a crash, or a rotation by the owner, a further rotation is requested already.
    const isRequested = isSince(after(made), rotation.jwtSecret ?? 0);
    if (!isRequested && !(await this.patch(project, { rotation: { jwtSecret: after(made) } }))) return;
    await this.owners.setRotationStep(row.id, LAST_STEP);
    this.log.info({ ref: row.ref, rotation: after(made) }, 'rotation of a transferred project finished');
    await this.endSessions(row, project, database);
  }

  /** Requests the rotation again if its numbers were removed from the spec before the operator saw them. */
  private async askAgain(project: SeenProject, number: number): Promise<void> {
    const { jwtSecret = 0, databasePasswords = 0 } = project.spec.rotation ?? {};
    const rotation = {
      ...(isSince(number, jwtSecret) ? {} : { jwtSecret: number }),
      ...(isSince(number, databasePasswords) ? {} : { databasePasswords: number }),
    };
    if (Object.keys(rotation).length > 0) await this.patch(project, { rotation });
  }

  /**
   * Ends the sessions that were opened with the former password. Retried, because the former owner may use every
   * connection slot of the login.
   */
  private async endSessions(row: ProjectRow, project: SeenProject, database: Record<string, string>): Promise<void> {
    const retry = this.retries.get(row.id);
    if (retry && performance.now() < retry.at) return;
    try {
      // A suspended project's database has no sessions, and accepts none.
      if (!isSuspended(project)) await this.runEnd(row.ref, database);
      await this.owners.setRotationStep(row.id, 0);
      this.retries.delete(row.id);
    } catch (error) {
      this.noteRetry(row.id, (retry?.failures ?? 0) + 1);
      const message = 'database sessions of the former owner not ended; retried later';
      this.log.warn({ err: error, ref: row.ref }, message);
    }
  }

  private runEnd(ref: string, database: Record<string, string>): Promise<unknown> {
    const signal = AbortSignal.timeout(END_SESSIONS_MS);
    return runQuery(ref, database, END_SESSIONS, { mode: 'owner', signal, deadline: END_SESSIONS_MS });
  }

  private noteRetry(id: number, failures: number): void {
    this.retries.delete(id);
    this.retries.set(id, { failures, at: performance.now() + delayOf(RETRIES, failures) });
    const [oldest] = this.retries.keys();
    if (this.retries.size > MOST_RETRIES && oldest !== undefined) this.retries.delete(oldest);
  }

  /** Returns false if the Project was deleted. Fails with a 409 if it was changed since it was read. */
  private async patch({ metadata }: SeenProject, spec: object): Promise<boolean> {
    const { name, uid, resourceVersion } = metadata;
    const patched = await this.kubernetes.patchProject(name, { metadata: { uid, resourceVersion }, spec });
    if (patched) this.cache.put(patched);
    return patched !== undefined;
  }
}

/** Returns a merge patch without the owner's secrets that adds no empty object to a spec. */
function withoutOwnersSecrets({ spec: { source, notifications } }: SeenProject): object {
  return {
    ...(source && { source: { tokenSecretRef: null, deployKeySecretRef: null } }),
    ...(notifications && { notifications: { slackWebhookSecretRef: null } }),
  };
}

interface Begun {
  number: number;
  keys: Record<string, string>;
  database: Record<string, string>;
}

const after = (number: number) => (number >= MAX_ROTATION ? 0 : number + 1);

/** True if `number` is `first` or one of the few that follow. Numbers restart at 1. */
const isSince = (first: number, number: number) => number >= first && number - first < 1000;
