import type { IncomingHttpHeaders } from 'node:http';
import { Readable } from 'node:stream';
import { Body, Controller, Headers, Ip, Param, Query, StreamableFile } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import Type from 'typebox';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { RawBody, type UnreadBody } from '../http/raw-body.js';
import { Route } from '../http/route.js';
import { OK, type Ok } from '../http/schema.js';
import { eventStream, isEventStream } from '../live/followers.js';
import { ProjectId } from '../projects/project.schema.js';
import { DELETING, NO_PROJECT } from '../projects/project-problems.js';
import { AppsService } from './apps.service.js';
import { TOKEN_HEADER } from './deliveries.js';
import { ONLY_JSON } from './delivery-body.js';
import {
  AppDeploy,
  AppLogQuery,
  AppRollback,
  DEFAULT_LINES,
  Deployed,
  DeployQuery,
  EXAMPLES,
  PushEvent,
} from './deploy.schema.js';
import { positionOf } from './log-followers.js';
import { SIGNATURE_HEADERS } from './webhook-signatures.js';

const UNBUILDABLE = { kind: 'no_repository', text: 'The project is not an app, or has no repo_url.' } as const;

@ApiTags('deploys')
@Controller()
export class AppsController {
  constructor(private readonly apps: AppsService) {}

  @Route('POST', '/projects/{id}/compute/deploy', {
    summary: 'Build and deploy an app',
    description:
      'Queues a Build of the newest commit of the production branch. The image is built from the Dockerfile of the ' +
      'repository, and its container replaces the live one. A Build that waits for the same commit is used again.',
    access: 'projects:write',
    cost: 10,
    params: ProjectId,
    body: AppDeploy,
    optionalBodyAs: ['application/json'],
    bodyExamples: { newest: {} },
    answer: { status: 200, description: 'A Build is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: { ...DELETING, 400: UNBUILDABLE },
  })
  deployApp(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Deployed> {
    return this.apps.deploy(caller, id);
  }

  @Route('POST', '/projects/{id}/compute/webhook', {
    summary: 'Deploy an app for a push event',
    description:
      'Queues a Build of the commit that was pushed to the production branch. Other branches and other events, such ' +
      'as a ping, build nothing: `ignored` is true. ' +
      'A git host calls it as `webhook_url` without a bearer token, and proves the `webhook_secret` of the project ' +
      'by `token`, by `X-Gitlab-Token`, or by a signature of the body: `X-Hub-Signature-256`, `X-Gitea-Signature`, ' +
      '`X-Forgejo-Signature` or `webhook-signature`. The body is the event as JSON, up to 25 MiB; an empty body ' +
      'builds the newest commit.',
    access: 'projects:write',
    webhookHeaders: [TOKEN_HEADER, ...SIGNATURE_HEADERS],
    cost: 10,
    params: ProjectId,
    query: DeployQuery,
    body: PushEvent,
    ownBodyCheck: true,
    optionalBodyAs: ONLY_JSON.contentTypes,
    bodyExamples: { push: EXAMPLES.push },
    answer: { status: 200, description: 'A Build is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: {
      400: UNBUILDABLE,
      401: 'Neither a bearer token, a webhook token nor a signature is right.',
      ...DELETING,
      408: { kind: 'request_too_slow', text: 'A body of more than 1 MiB was not sent within 20 seconds.' },
      413: 'The body is larger than 25 MiB, or has more than 300,000 values and names, or more than 100 levels.',
      415: 'The content type is not application/json.',
      429: 'Too many wrong tokens and signatures came from this network.',
    },
  })
  receiveAppWebhook(
    @Caller() caller: Principal | undefined,
    @Param() { id }: ProjectId,
    @Query() { token }: DeployQuery,
    @RawBody() body: UnreadBody,
    @Headers() headers: IncomingHttpHeaders,
    @Ip() address: string,
  ): Promise<Deployed> {
    return this.apps.deliver({ caller, id, token, body, headers, address });
  }
  @Route('POST', '/projects/{id}/compute/rollback', {
    summary: 'Run an earlier version of an app again',
    description:
      'Runs the image of an earlier build again, without building, and supersedes a build that runs. Without `build` ' +
      'it is the version that was live before the live one. It fails if the image is no longer kept.',
    access: 'builds:write',
    params: ProjectId,
    body: AppRollback,
    optionalBodyAs: ['application/json'],
    bodyExamples: { before: {}, build: { build: 7 } },
    answer: { status: 200, description: 'The rollback is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: {
      400: { kind: 'wrong_type', text: 'The project is not an app, or the body is not valid.' },
      404: 'There is no such project or build, or it is not yours.',
      409: {
        kind: 'conflict',
        text: 'There is no version before the live one, the build was not deployed, or the project is being deleted.',
      },
    },
  })
  rollBackApp(@Caller() caller: Principal, @Param() { id }: ProjectId, @Body() wanted: AppRollback): Promise<Deployed> {
    return this.apps.rollBack(caller, id, wanted);
  }

  @Route('GET', '/projects/{id}/compute/logs', {
    summary: 'Read the output of an app',
    description:
      'Returns the last lines of what the containers of the app have printed, as plain text of at most 1 MiB. Each ' +
      'line begins with its time. With `Accept: text/event-stream` it follows the output from there on, as ' +
      'server-sent events: `log` has `text`, `skipped` has the `bytes` that are no longer kept, and `end` means that ' +
      'the project was removed. The id of an event is a position, from which `Last-Event-ID` continues.',
    access: 'builds:read',
    cost: 5,
    params: ProjectId,
    query: AppLogQuery,
    answer: {
      status: 200,
      description: 'The output.',
      schema: Type.String(),
      example: '2026-07-01T12:00:00.000Z listening at 8080\n',
      contentType: 'text/plain',
    },
    problems: {
      400: { kind: 'wrong_type', text: 'The project is not an app, or a parameter is not valid.' },
      ...NO_PROJECT,
      429: 'Too many requests, or too many readers follow logs.',
    },
  })
  async readAppOutput(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Query() { lines = DEFAULT_LINES }: AppLogQuery,
    @Headers() headers: IncomingHttpHeaders,
    @CallerSignal() closed: AbortSignal,
  ): Promise<StreamableFile> {
    if (isEventStream(headers)) {
      return eventStream(await this.apps.follow(caller, id, { lines, from: positionOf(headers) }, closed));
    }
    const pieces = await this.apps.output(caller, id, lines);
    return new StreamableFile(Readable.from(pieces), { type: 'text/plain; charset=utf-8' });
  }

  @Route('POST', '/projects/{id}/compute/restart', {
    summary: 'Restart the container of an app',
    description: 'Responds at once. The live image starts again in a new container, without a gap.',
    access: 'projects:write',
    cost: 10,
    params: ProjectId,
    answer: { status: 200, description: 'The container is being restarted.', schema: OK, example: { ok: true } },
    problems: {
      400: { kind: 'wrong_type', text: 'The project is not an app, or the id is not valid.' },
      ...NO_PROJECT,
      409: {
        kind: 'project_not_ready',
        text: 'Nothing is deployed yet, or the project is suspended or being deleted.',
      },
    },
  })
  async restartApp(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Ok> {
    await this.apps.restart(caller, id);
    return { ok: true };
  }
}
