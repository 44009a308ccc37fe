import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { AuthConfigService } from './auth-config.service.js';
import {
  AuthConfig,
  AuthConfigChange,
  type Config,
  type ConfigChange,
  RestConfig,
  RestConfigChange,
  SentTestMail,
  TestMail,
} from './config.schema.js';
import { shownConfig } from './config-change.js';
import { AUTH, REST } from './config-kinds.js';
import { RestConfigService } from './rest-config.service.js';
import { TestMailService } from './test-mail.service.js';

const PROBLEMS = {
  400: 'The project has no database, or a parameter or the body is not valid; `errors` names each setting.',
  ...NO_PROJECT,
};
const REST_PROBLEMS = {
  409: {
    kind: 'conflict' as const,
    text: 'The version is outdated, or the project is not provisioned yet, suspended or being deleted.',
  },
  429: 'Too many queries of this project run at once.',
};
const EXAMPLE = shownConfig(AUTH, {
  version: '4711',
  content: { GOTRUE_SITE_URL: 'https://shop.example.com', GOTRUE_SMTP_HOST: 'smtp.example.com', GOTRUE_SMTP_PASS: '…' },
});

const REST_EXAMPLE = shownConfig(REST, { version: '5f1c', content: { db_schemas: 'api', db_max_rows: '1000' } });
const CHANGE_RULES =
  'Members that are left out stay; null removes a setting. If a member is not known or not valid, nothing changes. ' +
  'With `version`, nothing changes if the settings have changed since that version was read.';

@ApiTags('projects')
@Controller()
export class ConfigController {
  constructor(
    private readonly auth: AuthConfigService,
    private readonly rest: RestConfigService,
    private readonly mails: TestMailService,
  ) {}

  @Route('GET', '/projects/{id}/config/auth', {
    summary: "Read the settings of a project's auth",
    description: 'Secrets are true if they are set. A provider has members once one of its settings is set.',
    access: 'config:read',
    params: ProjectId,
    answer: { status: 200, description: 'All settings.', schema: AuthConfig, example: EXAMPLE },
    problems: PROBLEMS,
  })
  readAuthConfig(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Config> {
    return this.auth.read(caller, id);
  }

  @Route('PATCH', '/projects/{id}/config/auth', {
    summary: "Change settings of a project's auth",
    description: CHANGE_RULES,
    access: 'config:write',
    cost: 5,
    params: ProjectId,
    body: AuthConfigChange,
    bodyExamples: {
      mail: {
        site_url: 'https://shop.example.com',
        smtp_host: 'smtp.example.com',
        smtp_user: 'shop',
        smtp_pass: 'the password',
      },
      remove: { version: '4711', smtp_host: null, smtp_user: null, smtp_pass: null },
    },
    answer: { status: 200, description: 'All settings.', schema: AuthConfig, example: EXAMPLE },
    problems: {
      ...PROBLEMS,
      409: { kind: 'conflict', text: 'The version is outdated, or the project is being deleted.' },
    },
  })
  changeAuthConfig(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() change: ConfigChange,
  ): Promise<Config> {
    return this.auth.change(caller, id, change);
  }

  @Route('POST', '/projects/{id}/config/auth/test-mail', {
    summary: 'Send a test mail',
    description:
      "Sends a mail with the project's present SMTP settings, and responds when the mail server has accepted or " +
      'refused it. At most 20 an hour.',
    access: 'config:write',
    cost: 20,
    params: ProjectId,
    body: TestMail,
    bodyExamples: { mail: { to: 'ada@example.com' } },
    answer: {
      status: 200,
      description: 'The mail server accepted the mail.',
      schema: SentTestMail,
      example: { ok: true, to: 'ada@example.com' },
    },
    problems: {
      ...NO_PROJECT,
      400: 'The project has no database, or a parameter or the body is not valid.',
      403: { kind: 'service_not_available', text: 'GoTrue’s own image serves the auth of the project.' },
      409: { kind: 'project_not_ready', text: 'The project is not provisioned yet, suspended or being deleted.' },
      422: { kind: 'mail_not_sent', text: 'No SMTP server is set, or it refused the mail. `detail` has the reason.' },
    },
  })
  async sendTestMail(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() { to }: TestMail,
    @CallerSignal() signal: AbortSignal,
  ): Promise<SentTestMail> {
    await this.mails.send(caller, { id, to }, signal);
    return { ok: true, to };
  }

  @Route('GET', '/projects/{id}/config/rest', {
    summary: "Read the settings of a project's REST",
    description: 'They are the `pgrst.…` settings of the database.',
    access: 'config:read',
    params: ProjectId,
    answer: { status: 200, description: 'All settings.', schema: RestConfig, example: REST_EXAMPLE },
    problems: { ...PROBLEMS, ...REST_PROBLEMS },
  })
  readRestConfig(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @CallerSignal() signal: AbortSignal,
  ): Promise<Config> {
    return this.rest.read(caller, id, signal);
  }

  @Route('PATCH', '/projects/{id}/config/rest', {
    summary: "Change settings of a project's REST",
    description: CHANGE_RULES,
    access: 'config:write',
    cost: 5,
    params: ProjectId,
    body: RestConfigChange,
    bodyExamples: { rows: { db_max_rows: 1000, db_aggregates_enabled: true }, remove: { db_max_rows: null } },
    answer: { status: 200, description: 'All settings.', schema: RestConfig, example: REST_EXAMPLE },
    problems: { ...PROBLEMS, ...REST_PROBLEMS },
  })
  changeRestConfig(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() change: ConfigChange,
    @CallerSignal() signal: AbortSignal,
  ): Promise<Config> {
    return this.rest.change(caller, id, change, signal);
  }
}
