import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { authConfigOf } from './auth-config.js';
import { AuthConfig, AuthConfigChange } from './auth-config.schema.js';
import { AuthConfigService } from './auth-config.service.js';

const PROBLEMS = {
  400: 'The project has no database, or a parameter or the body is not valid; `errors` names each setting.',
  404: 'There is no such project, or it is not yours.',
};
const EXAMPLE = authConfigOf({
  version: '4711',
  content: { GOTRUE_SITE_URL: 'https://shop.example.com', GOTRUE_SMTP_HOST: 'smtp.example.com', GOTRUE_SMTP_PASS: '…' },
});

@ApiTags('projects')
@Controller()
export class AuthConfigController {
  constructor(private readonly settings: AuthConfigService) {}

  @Route('GET', '/projects/{id}/config/auth', {
    summary: "Read the settings of a project's auth",
    description: 'Secrets are true if they are set. A provider has members once one of its settings is set.',
    access: 'config:read',
    params: ProjectId,
    answer: { status: 200, description: 'All settings.', schema: AuthConfig, example: EXAMPLE },
    problems: PROBLEMS,
  })
  readAuthConfig(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<AuthConfig> {
    return this.settings.read(caller, id);
  }

  @Route('PATCH', '/projects/{id}/config/auth', {
    summary: "Change settings of a project's auth",
    description:
      'Members that are left out stay; null removes a setting. ' +
      'If a member is not known or not valid, nothing changes. ' +
      'With `version`, nothing changes if the settings have changed since that version was read.',
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
    @Body() change: AuthConfigChange,
  ): Promise<AuthConfig> {
    return this.settings.change(caller, id, change);
  }
}
