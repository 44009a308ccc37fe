/** Lists projects without an owner, and assigns projects, for administrators. */

import { Body, Controller, Inject, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { normalAddress } from '@slipway/crds';
import type { Logger } from 'pino';
import Type from 'typebox';
import { Email } from '../accounts/account.schema.js';
import { missing } from '../http/problem.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { AccountMail } from '../mail/account-mail.js';
import { letters } from '../mail/letters.js';
import { LOG } from '../settings/injected.js';
import { ProjectRef } from './project.schema.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { nameOf } from './project-view.js';

const Assignment = Type.Object({ email: Email }, { $id: 'Assignment', additionalProperties: false });
type Assignment = Type.Static<typeof Assignment>;

const UnassignedProject = Type.Object(
  {
    ref: Type.String({ description: 'The ref of the project, the name of its Project resource.' }),
    owner: Type.String({ description: 'The address in its spec.owner.' }),
  },
  { $id: 'UnassignedProject', additionalProperties: false },
);
type UnassignedProject = Type.Static<typeof UnassignedProject>;

@ApiTags('administration')
@Controller()
export class AssignmentsController {
  constructor(
    private readonly owners: ProjectOwnersRepository,
    private readonly cache: ProjectCache,
    private readonly mail: AccountMail,
    private readonly kubernetes: Kubernetes,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  @Route('GET', '/admin/projects/unassigned', {
    summary: 'List projects that no account owns',
    description: 'They were applied with kubectl for an address that no account may inherit from. At most 1000.',
    access: 'admin:read',
    answer: {
      status: 200,
      description: 'The projects, and the address that each names.',
      schema: Type.Array(UnassignedProject),
      example: [{ ref: 'shop', owner: 'ada@example.com' }],
    },
  })
  listUnassignedProjects(): Promise<UnassignedProject[]> {
    return this.owners.unassigned();
  }

  @Route('POST', '/admin/projects/{ref}/owner', {
    summary: 'Assign a project to an account',
    description:
      '`spec.owner` follows. If another account owned the project before, ' +
      'its credentials are rotated (JWT secret, API keys, passwords of the database and webhook secret), ' +
      'and its Git token, deploy key and Slack address are removed. ' +
      'That account gets a mail and an entry in `lost_projects` of `GET /auth/me`, and the Project an event.',
    access: 'admin:write',
    params: ProjectRef,
    body: Assignment,
    bodyExamples: { assignment: { email: 'ada@example.com' } },
    answer: { status: 200, description: 'The account owns the project.', schema: OK, example: { ok: true } },
    problems: {
      404: 'There is no such project, or no such account that is not disabled.',
      409: { kind: 'name_taken', text: 'The account has a project of that name.' },
    },
  })
  async assignProject(@Param() { ref }: ProjectRef, @Body() { email }: Assignment): Promise<Ok> {
    const project = this.cache.get(ref);
    if (!project || project.metadata.deletionTimestamp) throw missing('project');
    const assigned = await this.owners.assign(ref, normalAddress(email), nameOf(project));
    if (!assigned) throw missing('project or account');
    if (assigned.lastOwnerId !== assigned.ownerId)
      this.mail.post(assigned.email, letters.project(this.mail.publicUrl, ref));
    if (assigned.formerOwner !== null) {
      this.mail.post(assigned.formerOwner, letters.projectGone(this.mail.publicUrl, ref));
      // The assignment holds even if no event can be written.
      await this.kubernetes
        .recordEvent(
          project,
          'OwnerChanged',
          'an administrator assigned the project to another account; its credentials are rotated',
        )
        .catch((error: unknown) => this.log.warn({ err: error, ref }, 'event of an assignment not written'));
    }
    this.cache.announce();
    return { ok: true };
  }
}
