/** Routes with which an owner suspends a project, resumes it, and rotates its credentials. */

import { Body, Controller, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { OK, type Ok, oneOf } from '../http/schema.js';
import { ProjectId } from './project.schema.js';
import { DELETING } from './project-problems.js';
import { ProjectsService } from './projects.service.js';
import { CREDENTIAL_NAMES } from './rotation.js';

const Rotation = Type.Object(
  {
    what: Type.Array(oneOf(CREDENTIAL_NAMES, { description: 'A credential.' }), {
      minItems: 1,
      maxItems: CREDENTIAL_NAMES.length,
      uniqueItems: true,
      description:
        'jwt_secret: the secret that signs tokens, and with it the API keys. Tokens and keys of the former secret ' +
        'stay valid until the next rotation. api_keys: new API keys of the same secret; the former ones stay valid. ' +
        'database_passwords: the passwords of the database.',
    }),
  },
  { $id: 'Rotation', additionalProperties: false },
);
type Rotation = Type.Static<typeof Rotation>;

const OF_PROJECT = { access: 'projects:write', params: ProjectId } as const;

@ApiTags('projects')
@Controller()
export class OperationsController {
  constructor(private readonly projects: ProjectsService) {}

  @Route('POST', '/projects/{id}/rotate', {
    summary: 'Make credentials of a project new',
    description:
      '`rotations` in /projects/{id}/status shows the progress. Two requests at the same time may be one rotation. A ' +
      'suspended project gets its new credentials when it is resumed. A JWT secret that you brought is replaced.',
    access: 'projects:write',
    cost: 20,
    params: ProjectId,
    body: Rotation,
    bodyExamples: { 'after a leak': { what: ['jwt_secret', 'database_passwords'] } },
    answer: { status: 200, description: 'The rotation is requested.', schema: OK, example: { ok: true } },
    problems: { ...DELETING, 400: 'A field is wrong, or the project has no such credentials.' },
  })
  async rotateCredentials(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() { what }: Rotation,
  ): Promise<Ok> {
    await this.projects.rotate(caller, id, what);
    return { ok: true };
  }

  @Route('POST', '/projects/{id}/suspend', {
    ...OF_PROJECT,
    summary: 'Suspend a project',
    description: 'None of its services run, and its data is retained. The same as PATCH with `{"suspended": true}`.',
    answer: { status: 200, description: 'The project is suspended.', schema: OK, example: { ok: true } },
    problems: DELETING,
  })
  async suspendOwnProject(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Ok> {
    await this.projects.change(caller, id, { suspended: true });
    return { ok: true };
  }

  @Route('POST', '/projects/{id}/resume', {
    ...OF_PROJECT,
    summary: 'Resume a project',
    description:
      'A suspension by an administrator, or by kubectl, stays. The same as PATCH with `{"suspended": false}`.',
    answer: { status: 200, description: 'The project is resumed.', schema: OK, example: { ok: true } },
    problems: {
      ...DELETING,
      409: { kind: 'project_suspended', text: 'The platform suspended it, or it is being deleted.' },
    },
  })
  async resumeOwnProject(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Ok> {
    await this.projects.change(caller, id, { suspended: false });
    return { ok: true };
  }
}
