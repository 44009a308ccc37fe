/** Suspends and resumes projects for administrators. Sets `spec.suspend`, which no owner can lift. */
import { Body, Controller, Inject, Param } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { Logger } from 'pino';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { missing } from '../http/problem.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { LOG } from '../settings/injected.js';
import { ProjectRef } from './project.schema.js';

const Suspension = Type.Object(
  {
    suspended: Type.Boolean({
      description: 'true: no service of the project runs, its data is retained, and its owner cannot resume it.',
    }),
  },
  { $id: 'Suspension', additionalProperties: false },
);
type Suspension = Type.Static<typeof Suspension>;

@ApiTags('administration')
@Controller()
export class SuspensionsController {
  constructor(
    private readonly cache: ProjectCache,
    private readonly kubernetes: Kubernetes,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  @Route('PATCH', '/admin/projects/{ref}', {
    summary: 'Suspend or resume a project of any account',
    description:
      'Neither its owner nor a token of theirs can resume a project that an administrator suspended. ' +
      'A suspension by its owner is recorded apart, and stays when an administrator resumes the project. ' +
      'The Project gets an event.',
    access: 'admin:write',
    params: ProjectRef,
    body: Suspension,
    bodyExamples: { suspend: { suspended: true }, resume: { suspended: false } },
    answer: {
      status: 200,
      description: 'The suspension is recorded in the Project.',
      schema: OK,
      example: { ok: true },
    },
    problems: { 404: 'There is no such project, or it is being deleted.' },
  })
  async suspendProject(
    @Caller() { user }: Principal,
    @Param() { ref }: ProjectRef,
    @Body() { suspended }: Suspension,
  ): Promise<Ok> {
    const current = this.cache.get(ref);
    if (!current || current.metadata.deletionTimestamp) throw missing('project');
    const { uid } = current.metadata;
    const patched = await this.kubernetes.patchProject(ref, { metadata: { uid }, spec: { suspend: suspended } });
    if (!patched) throw missing('project');
    const project = this.cache.put(patched);
    this.log.info({ ref, administrator: user.id, suspended }, 'suspension of a project changed');
    await this.note(project, suspended);
    return { ok: true };
  }

  /** Records an event. The suspension holds even if no event can be written. */
  private async note(project: SeenProject, suspended: boolean): Promise<void> {
    const [reason, message] = suspended
      ? ['Suspended', 'an administrator suspended the project']
      : ['Resumed', 'an administrator resumed the project'];
    await this.kubernetes
      .recordEvent(project, reason as string, message as string)
      .catch((error: unknown) =>
        this.log.warn({ err: error, ref: project.metadata.name }, 'event of a suspension not written'),
      );
  }
}
