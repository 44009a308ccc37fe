/** Sends a mail with a project's own settings, so that its owner sees at once whether they work. */
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/installation';
import { authConfigDigest } from '@slipway/installation/auth-settings.js';
import { type AuthAccess, AuthAdmin, AuthRefusal } from '../auth-admin/auth-admin.js';
import type { Principal } from '../callers/principal.js';
import { Problem, retryLater } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { ProjectsService, refuseDeleting } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';

/** Longer than the auth service waits for a mail server. */
const DEADLINE_MS = 40_000;
/** Changed settings reach the auth service in this time. A machine of a project's own takes seconds. */
const SETTLED_MS = 30_000;
const POLL_MS = 250;

@Injectable()
export class TestMailService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly auth: AuthAdmin,
  ) {}

  /** Resolves when the mail server has accepted the mail. */
  async send(caller: Principal, { id, to }: { id: number; to: string }, signal: AbortSignal): Promise<void> {
    const { project } = await this.projects.find(caller, id);
    refuseWithoutDatabase(project, 'auth');
    refuseDeleting(project);
    refuseSuspended(project);
    const serviceRoleKey = (await this.secrets.keys(project))?.[SECRETS.keys.serviceRoleKey];
    if (!serviceRoleKey) throw new Problem('project_not_ready', 'The project is not provisioned yet.');
    const access = { ref: project.metadata.name, serviceRoleKey };
    const until = performance.now() + SETTLED_MS;
    while (!(await this.attempt(project, access, to))) {
      if (performance.now() > until) {
        throw retryLater('unavailable', 'The auth service does not have the settings of the project yet.', 10);
      }
      await pause(POLL_MS, undefined, { signal });
    }
  }

  /** Returns false if the auth service has other settings than the project. */
  private async attempt(project: SeenProject, access: AuthAccess, to: string): Promise<boolean> {
    const { content } = await this.secrets.authConfig(project);
    const body = { email: to, settings: authConfigDigest(content) };
    try {
      await this.auth.request(access, { method: 'POST', path: '/test_mail', body, deadlineMs: DEADLINE_MS });
      return true;
    } catch (error) {
      if (!(error instanceof AuthRefusal)) throw error;
      if (error.code === 'settings_outdated') return false;
      throw problemOf(error);
    }
  }
}

const NOT_OURS = 'The auth of this project is GoTrue’s own image, which has no test mail. Sign up a user instead.';

function problemOf({ code, status, message }: AuthRefusal): Problem {
  if (code === 'mail_not_sent') return new Problem('mail_not_sent', `The mail was not sent. ${message}.`);
  if (status === 404) return new Problem('service_not_available', NOT_OURS);
  if (code === 'validation_failed') return new Problem('validation_failed', message);
  if (status === 429) return retryLater('too_many_requests', 'Too many test mails. Wait a few minutes.', 180);
  return retryLater('unavailable', `The auth service of the project did not send the mail: ${message}.`, 10);
}
