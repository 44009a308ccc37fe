import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { Controller, Headers, Param, Query, StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { BUILD_BUDGET } from '@slipway/crds';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { eventStream, isEventStream } from '../live/followers.js';
import { ProjectId } from '../projects/project.schema.js';
import { NO_PROJECT } from '../projects/project-problems.js';
import { BuildId, BuildView, EXAMPLE_BUILD, EXAMPLE_PREVIEW, PreviewView } from './build.schema.js';
import { BuildsService } from './builds.service.js';
import { Deployed, EXAMPLES, PreviewQuery } from './deploy.schema.js';
import { positionOf } from './log-followers.js';
import { PreviewsService } from './previews.service.js';

const NO_BUILD = { 404: 'There is no such project or build, or it is not yours.' };

@ApiTags('deploys')
@Controller()
export class BuildsController {
  constructor(
    private readonly builds: BuildsService,
    private readonly previews: PreviewsService,
  ) {}

  @Route('GET', '/projects/{id}/builds', {
    summary: 'List the builds of a project',
    description:
      `The newest first. The ${BUILD_BUDGET.buildsOfProject} newest of the site or app are kept, and ` +
      `${BUILD_BUDGET.buildsOfPreviews} of previews.`,
    access: 'builds:read',
    params: ProjectId,
    answer: { status: 200, description: 'The builds.', schema: Type.Array(BuildView), example: [EXAMPLE_BUILD] },
    problems: NO_PROJECT,
  })
  listBuilds(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<BuildView[]> {
    return this.builds.list(caller, id);
  }

  @Route('GET', '/projects/{id}/builds/{buildId}', {
    summary: 'Read a build',
    access: 'builds:read',
    params: BuildId,
    answer: { status: 200, description: 'The build.', schema: BuildView, example: EXAMPLE_BUILD },
    problems: NO_BUILD,
  })
  readBuild(@Caller() caller: Principal, @Param() { id, buildId }: BuildId): Promise<BuildView> {
    return this.builds.get(caller, id, buildId);
  }

  @Route('GET', '/projects/{id}/builds/{buildId}/logs', {
    summary: 'Read the output of a build',
    description:
      'Returns plain text, step after step, up to the last written line. Values of secrets are shown as [redacted]. ' +
      'With `Accept: text/event-stream` it follows a build that waits or runs, as server-sent events: `log` has ' +
      '`text`, and `end`, the last one, has the `phase`. Each event has a byte offset as its id, from which ' +
      '`Last-Event-ID` continues.',
    access: 'builds:read',
    cost: 5,
    params: BuildId,
    answer: {
      status: 200,
      description: 'The output.',
      schema: Type.String(),
      example: '$ npm run build\n',
      contentType: 'text/plain',
    },
    problems: { ...NO_BUILD, 429: 'Too many requests, or too many readers follow logs.' },
  })
  async readBuildOutput(
    @Caller() caller: Principal,
    @Param() { id, buildId }: BuildId,
    @Headers() headers: IncomingHttpHeaders,
    @CallerSignal() closed: AbortSignal,
  ): Promise<StreamableFile> {
    if (isEventStream(headers)) {
      return eventStream(await this.builds.follow(caller, { id, buildId }, positionOf(headers) ?? 0, closed));
    }
    const pieces = await this.builds.output(caller, id, buildId);
    return new StreamableFile(Readable.from(pieces), { type: 'text/plain; charset=utf-8' });
  }

  @Route('GET', '/projects/{id}/previews', {
    summary: 'List the previews of a project',
    description: 'The newest first: one of each branch, and no more than the plan has.',
    access: 'builds:read',
    params: ProjectId,
    answer: { status: 200, description: 'The previews.', schema: Type.Array(PreviewView), example: [EXAMPLE_PREVIEW] },
    problems: NO_PROJECT,
  })
  listPreviews(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<PreviewView[]> {
    return this.previews.list(caller, id);
  }

  @Route('DELETE', '/projects/{id}/previews', {
    summary: 'Remove the preview of a branch',
    description:
      'Its files are removed within seconds, and builds of the preview that wait or run are ended. ' +
      'A later push to the branch builds it again.',
    access: 'builds:write',
    params: ProjectId,
    query: PreviewQuery,
    answer: { status: 200, description: 'The preview is being removed.', schema: OK, example: { ok: true } },
    problems: { 404: 'There is no such project or preview, or it is not yours.' },
  })
  async removePreview(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Query() { branch }: PreviewQuery,
  ): Promise<Ok> {
    await this.previews.remove(caller, id, branch);
    return { ok: true };
  }

  @Route('DELETE', '/projects/{id}/build-cache', {
    summary: 'Clear the build cache of a project',
    description:
      'The cache has what builds keep for later ones, such as packages and versions of Node. Each build that starts ' +
      'after the response begins without it; one that runs keeps it until it ends.',
    access: 'builds:write',
    params: ProjectId,
    answer: {
      status: 200,
      description: 'The cache is cleared before the next build.',
      schema: OK,
      example: { ok: true },
    },
    problems: {
      ...NO_BUILD,
      400: { kind: 'wrong_type', text: 'The project is not built from a git repository, or the id is not valid.' },
      409: { kind: 'project_deleting', text: 'The project is being deleted.' },
    },
  })
  async clearBuildCache(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Ok> {
    await this.builds.clearCache(caller, id);
    return { ok: true };
  }

  @Route('POST', '/projects/{id}/builds/{buildId}/cancel', {
    summary: 'Cancel a build',
    description: 'One that waits does not begin, and of one that runs every process is ended, within seconds.',
    access: 'builds:write',
    params: BuildId,
    answer: { status: 200, description: 'The build, as it is now.', schema: BuildView, example: EXAMPLE_BUILD },
    problems: { ...NO_BUILD, 409: { kind: 'conflict', text: 'The build has ended.' } },
  })
  cancelBuild(@Caller() caller: Principal, @Param() { id, buildId }: BuildId): Promise<BuildView> {
    return this.builds.cancel(caller, id, buildId);
  }

  @Route('POST', '/projects/{id}/builds/{buildId}/redeploy', {
    summary: 'Build a commit again',
    description: 'Queues a build of the commit that this one built, with the settings of now.',
    access: 'builds:write',
    cost: 10,
    params: BuildId,
    answer: { status: 200, description: 'A build is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: { ...NO_BUILD, 409: { kind: 'project_deleting', text: 'The project is being deleted.' } },
  })
  redeployBuild(@Caller() caller: Principal, @Param() { id, buildId }: BuildId): Promise<Deployed> {
    return this.builds.redeploy(caller, id, buildId);
  }

  @Route('POST', '/projects/{id}/builds/{buildId}/rollback', {
    summary: 'Take the output of an earlier build live again',
    description: 'Nothing is built, and a build that runs is superseded. The outputs of the 5 newest deploys are kept.',
    access: 'builds:write',
    params: BuildId,
    answer: { status: 200, description: 'The rollback is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: {
      ...NO_BUILD,
      409: { kind: 'conflict', text: 'The build was not deployed, or the project is deleted.' },
    },
  })
  rollBackBuild(@Caller() caller: Principal, @Param() { id, buildId }: BuildId): Promise<Deployed> {
    return this.builds.rollBack(caller, id, buildId);
  }
}
