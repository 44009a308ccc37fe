import { Body, Controller, Param, Query, Res } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import type { FastifyReply } from 'fastify';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { pageLinks } from './page-links.js';
import { EXAMPLES } from './project.examples.js';
import {
  EnvVariable,
  FullProject,
  ListedProject,
  NewProject,
  ProjectChange,
  ProjectId,
  ProjectQuery,
  ProjectStatusAnswer,
} from './project.schema.js';
import { NO_PROJECT } from './project-problems.js';
import { ProjectsService } from './projects.service.js';

const link = (operationId: string, description: string) => ({
  operationId,
  description,
  parameters: { id: '$response.body#/id' },
});
const LINKS = {
  read: link('readProject', 'Read it.'),
  status: link('readProjectStatus', 'Follow its provisioning.'),
  change: link('changeProject', 'Change its settings.'),
  query: link('queryProject', 'Run SQL on its database.'),
  reprovision: link('reprovisionProject', 'Try again after provisioning failed.'),
  remove: link('deleteProject', 'Delete it.'),
};

@ApiTags('projects')
@Controller()
export class ProjectsController {
  constructor(private readonly projects: ProjectsService) {}

  @Route('GET', '/projects', {
    summary: 'List your projects',
    description:
      'In the order of their ids. With `limit`, `Link` names the other pages ' +
      'and `X-Total-Count` says the number of all projects.',
    access: 'projects:read',
    query: ProjectQuery,
    answer: {
      status: 200,
      description: 'The projects, without their secrets.',
      schema: Type.Array(ListedProject),
      example: EXAMPLES.list,
      headers: {
        Link: {
          description: 'RFC 8288: rel first, prev, next, last, as far as there are such pages.',
          schema: { type: 'string' },
        },
        'X-Total-Count': { description: 'Number of projects on all pages.', schema: { type: 'integer' } },
      },
    },
  })
  async listProjects(
    @Caller() caller: Principal,
    @Query() query: ProjectQuery,
    @Res({ passthrough: true }) reply: FastifyReply,
  ): Promise<ListedProject[]> {
    const { page, total } = await this.projects.list(caller, query);
    void reply.header('x-total-count', total);
    const links = pageLinks(query, total);
    if (links) void reply.header('link', links);
    return page;
  }

  @Route('POST', '/projects', {
    summary: 'Create a project',
    description: 'Responds at once; poll /projects/{id}/status until it is healthy.',
    access: 'projects:write',
    cost: 20,
    body: NewProject,
    bodyExamples: EXAMPLES.creation,
    answer: { status: 201, description: 'The project.', schema: FullProject, example: EXAMPLES.provisioning },
    problems: {
      403:
        'The token is missing the named scope, or the account may not use the plan or type, ' +
        'or has reached its limit of projects.',
      409: { kind: 'name_taken', text: 'You have a project of this name.' },
    },
    links: LINKS,
  })
  createProject(@Caller() caller: Principal, @Body() body: NewProject): Promise<FullProject> {
    return this.projects.create(caller, body);
  }

  @Route('GET', '/projects/{id}', {
    summary: 'Read a project',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The project with its secrets.', schema: FullProject, example: EXAMPLES.full },
    problems: NO_PROJECT,
  })
  readProject(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<FullProject> {
    return this.projects.read(caller, id);
  }

  @Route('PATCH', '/projects/{id}', {
    summary: 'Change settings of a project',
    description: 'Fields that are left out stay; null restores the default.',
    access: 'projects:write',
    params: ProjectId,
    body: ProjectChange,
    bodyExamples: EXAMPLES.change,
    answer: { status: 200, description: 'The changed project.', schema: FullProject, example: EXAMPLES.full },
    problems: {
      ...NO_PROJECT,
      403: 'The token is missing the named scope, or the account may not use the plan.',
      409: {
        kind: 'project_not_ready',
        text: 'It is being deleted, the change needs a provisioned project, or you have another project of the name.',
      },
    },
  })
  changeProject(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() body: ProjectChange,
  ): Promise<FullProject> {
    return this.projects.change(caller, id, body);
  }

  @Route('GET', '/projects/{id}/env', {
    summary: 'List the names of environment variables',
    description: 'Sorted by name, without values, which the project has as `env_vars`.',
    access: 'projects:read',
    params: ProjectId,
    answer: {
      status: 200,
      description: 'The variables.',
      schema: Type.Array(EnvVariable),
      example: [{ key: 'GREETING', target: 'all' }],
    },
    problems: NO_PROJECT,
  })
  listProjectEnv(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<EnvVariable[]> {
    return this.projects.listEnv(caller, id);
  }

  @Route('DELETE', '/projects/{id}', {
    summary: 'Delete a project and all its data',
    description:
      'Responds at once. The project has the status `deleting` until its data is deleted, and then is a 404.',
    access: 'projects:delete',
    params: ProjectId,
    answer: { status: 200, description: 'The project is being deleted.', schema: OK, example: { ok: true } },
    problems: NO_PROJECT,
  })
  async deleteProject(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Ok> {
    await this.projects.remove(caller, id);
    return { ok: true };
  }

  @Route('GET', '/projects/{id}/status', {
    summary: 'Read the status of a project and its services',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The status.', schema: ProjectStatusAnswer, example: EXAMPLES.status },
    problems: NO_PROJECT,
  })
  readProjectStatus(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<ProjectStatusAnswer> {
    return this.projects.readStatus(caller, id);
  }
}
