import type { IncomingHttpHeaders } from 'node:http';
import { Body, Controller, Headers, Ip, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { RawBody, type UnreadBody } from '../http/raw-body.js';
import { Route } from '../http/route.js';
import { ProjectId } from '../projects/project.schema.js';
import { DELETING, NO_PROJECT } from '../projects/project-problems.js';
import { BuildTickets } from './build-tickets.js';
import { TOKEN_HEADER } from './deliveries.js';
import { JSON_OR_FORM } from './delivery-body.js';
import {
  BranchDeploy,
  BuildLog,
  BuildPath,
  Deployed,
  DeployKeyAnswer,
  DeployQuery,
  EXAMPLES,
  GitCredentials,
  PushEvent,
} from './deploy.schema.js';
import { DeploysService } from './deploys.service.js';
import { SIGNATURE_HEADERS } from './webhook-signatures.js';

@ApiTags('deploys')
@Controller()
export class DeploysController {
  constructor(
    private readonly deploys: DeploysService,
    private readonly tickets: BuildTickets,
  ) {}

  @Route('POST', '/projects/{id}/deploy', {
    summary: 'Build and deploy a frontend project',
    description:
      'Queues a Build of the production branch; of a push event to that branch, a Build of the pushed commit. Where ' +
      '`previews` is true, a push to another branch builds its preview, and a deleted branch removes it. Other ' +
      'events build nothing: `ignored` is true. A Build that waits for the same commit or branch is used again. ' +
      'A git host calls it as `webhook_url` without a bearer token, and proves the `webhook_secret` of the project ' +
      'by `token`, by ' +
      '`X-Gitlab-Token`, or by a signature of the body: `X-Hub-Signature-256`, `X-Gitea-Signature`, ' +
      '`X-Forgejo-Signature` or `webhook-signature`. The body is empty, the event as JSON, or a form with the event ' +
      'as its field `payload`; up to 25 MiB.',
    access: 'projects:write',
    webhookHeaders: [TOKEN_HEADER, ...SIGNATURE_HEADERS],
    cost: 10,
    params: ProjectId,
    query: DeployQuery,
    body: PushEvent,
    ownBodyCheck: true,
    optionalBodyAs: JSON_OR_FORM.contentTypes,
    bodyExamples: { push: EXAMPLES.push },
    answer: { status: 200, description: 'A Build is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: {
      400: { kind: 'no_repository', text: 'The project is not a frontend project, or has no repo_url.' },
      401: 'Neither a bearer token, a webhook token nor a signature is right.',
      ...DELETING,
      408: { kind: 'request_too_slow', text: 'A body of more than 1 MiB was not sent within 20 seconds.' },
      413: 'The body is larger than 25 MiB, or has more than 300,000 values and names, or more than 100 levels.',
      415: 'The body is neither JSON nor a form.',
      429: 'Too many wrong tokens and signatures came from this network.',
    },
  })
  deployProject(
    @Caller() caller: Principal | undefined,
    @Param() { id }: ProjectId,
    @Query() { token }: DeployQuery,
    @RawBody() body: UnreadBody,
    @Headers() headers: IncomingHttpHeaders,
    @Ip() address: string,
  ): Promise<Deployed> {
    return this.deploys.deploy({ caller, id, token, body, headers, address });
  }

  @Route('POST', '/projects/{id}/frontend/deploy', {
    summary: 'Build and deploy a branch of a frontend project',
    description:
      'Queues a Build of the newest commit of the branch, and takes the site live with it. The next deploy of the ' +
      'production branch takes the site back. With `preview` it becomes the preview of the branch instead.',
    access: 'projects:write',
    cost: 10,
    params: ProjectId,
    body: BranchDeploy,
    bodyExamples: { branch: EXAMPLES.branch },
    answer: { status: 200, description: 'A Build is queued.', schema: Deployed, example: EXAMPLES.deployed },
    problems: {
      ...DELETING,
      409: {
        kind: 'conflict',
        text: 'Previews are off, or too many wait to be built. Or the project is being deleted.',
      },
      400: { kind: 'no_repository', text: 'The branch is not valid, or the project has no repo_url or another type.' },
    },
  })
  deployBranch(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() wanted: BranchDeploy,
  ): Promise<Deployed> {
    return this.deploys.deployBranch(caller, id, wanted);
  }

  @Route('POST', '/builds/{ref}/{build}/credentials', {
    summary: 'Fetch the git credentials of a build that runs',
    description:
      'For the build itself, once: it takes the ticket that the build was started with in the header ' +
      '`x-build-ticket`, and no bearer token.',
    access: 'ticket',
    params: BuildPath,
    answer: { status: 200, description: 'The credentials.', schema: GitCredentials, example: EXAMPLES.credentials },
    problems: {
      401: 'The ticket is not that of this build, was used, or the build does not clone now.',
      429: 'Too many wrong tickets came from the caller’s network.',
    },
  })
  fetchGitCredentials(
    @Param() { ref, build }: BuildPath,
    @Headers('x-build-ticket') ticket: string | undefined,
    @Ip() address: string,
  ): Promise<GitCredentials> {
    return this.tickets.redeem({ ref, build, ticket, address });
  }

  @Route('GET', '/projects/{id}/build-logs', {
    summary: 'Read the output of the build that runs, or of the last one that failed',
    description:
      'Empty before any build, and after one that succeeded. Of a long output it is the end: ' +
      '`/projects/{id}/builds/{buildId}/logs` has all of it.',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The output.', schema: BuildLog, example: EXAMPLES.emptyLog },
    problems: NO_PROJECT,
  })
  readBuildLogs(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<BuildLog> {
    return this.deploys.readLogs(caller, id);
  }

  @Route('POST', '/projects/{id}/deploy-key', {
    summary: 'Make a deploy key for a private repository',
    description:
      'An SSH key of the type ed25519. The private key is kept encrypted, and only a build of the project gets it. ' +
      'A new key replaces the one before.',
    access: 'projects:write',
    cost: 10,
    params: ProjectId,
    answer: { status: 200, description: 'The public key.', schema: DeployKeyAnswer, example: EXAMPLES.deployKey },
    problems: {
      ...NO_PROJECT,
      400: { kind: 'wrong_type', text: 'The project is not a frontend project, or the id is not valid.' },
      409: { kind: 'project_deleting', text: 'The project is being deleted.' },
    },
  })
  createDeployKey(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<DeployKeyAnswer> {
    return this.deploys.replaceDeployKey(caller, id);
  }
}
