/**
 * Receives deploys: authenticates the caller, and reads the body. In: a request. Out: the project, the payload, and the
 * keys that identify a replay; or a 400, 401, 404, 413, 415, 429 or 503.
 */
import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import { Injectable } from '@nestjs/common';
import { isSameSecret, networkOf } from '@slipway/program';
import type { Principal } from '../callers/principal.js';
import type { UnreadBody } from '../http/raw-body.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { ProjectsService } from '../projects/projects.service.js';
import { type BodyForms, DeliveryBodies, type Payload } from './delivery-body.js';
import type { PushSettings } from './push-event.js';
import { WebhookSecrets } from './webhook-secrets.js';
import { isSigned, SIGNATURE_HEADERS } from './webhook-signatures.js';

/** GitLab sends the webhook's secret in this header. */
export const TOKEN_HEADER = 'x-gitlab-token';

/**
 * Headers with the id of a delivery, which stays the same in a redelivery. The first one that is present counts:
 * GitLab's other id is shared by all deliveries with one cause.
 */
const ID_HEADERS = [
  'webhook-id',
  'idempotency-key',
  'x-github-delivery',
  'x-gitea-delivery',
  'x-forgejo-delivery',
  'x-gogs-delivery',
  'x-gitlab-event-uuid',
];

export interface DeployRequest {
  caller: Principal | undefined;
  id: number;
  token: string | undefined;
  headers: IncomingHttpHeaders;
  body: UnreadBody;
  address: string;
}

/** A route that receives deploys. */
export interface DeliveryRoute {
  forms: BodyForms;
  /** Rejects projects of other types. */
  refuseOthers(project: SeenProject): void;
  settingsOf(project: SeenProject): PushSettings;
}

export interface Received {
  project: SeenProject;
  payload: Payload | undefined;
  /** Undefined: the caller owns the project. */
  webhook: { keys: string[] } | undefined;
}

@Injectable()
export class Deliveries {
  constructor(
    private readonly projects: ProjectsService,
    private readonly webhooks: WebhookSecrets,
    private readonly bodies: DeliveryBodies,
  ) {}

  /** Accepts the owner of the project, or a proof of its webhook secret: a token, or a signature of the body. */
  async receive(request: DeployRequest, { forms }: Pick<DeliveryRoute, 'forms'>): Promise<Received> {
    const { caller, id, body, headers, address } = request;
    const byToken = await this.projectOfToken(request);
    const known = byToken ?? (caller && (await this.projects.find(caller, id)).project);
    if (!known && !SIGNATURE_HEADERS.some((name) => headers[name] !== undefined)) throw this.webhooks.refusal(address);
    const sender = known ? { proven: true, name: known.spec.owner } : { proven: false, name: networkOf(address) };
    const admit = (bytes: Buffer) => this.admit(request, known, bytes);
    const { admitted, payload } = await this.bodies.read(body, sender, admit, forms);
    const isOwner = caller !== undefined && !byToken;
    return { project: admitted.project, payload, webhook: isOwner ? undefined : { keys: admitted.keys } };
  }

  /** Not all hosts sign the id, so a signed body is a key of its own. */
  private async admit(request: DeployRequest, known: SeenProject | undefined, body: Buffer) {
    const { id, headers, address } = request;
    const ids = ID_HEADERS.map((name) => headers[name]).filter((value) => typeof value === 'string');
    const keys = ids.slice(0, 1).map((value) => keyOf('id', value));
    if (known) return { project: known, keys };
    const project = await this.webhooks.projectOf(id, (secret) => isSigned(secret, { body, headers }));
    if (!project) throw this.webhooks.refusal(address);
    return { project, keys: [...keys, keyOf('body', body)] };
  }

  private async projectOfToken({ id, token, headers }: DeployRequest): Promise<SeenProject | undefined> {
    const given = [token, headers[TOKEN_HEADER]].filter((each) => typeof each === 'string');
    if (given.length === 0) return undefined;
    return this.webhooks.projectOf(id, (secret) => given.some((each) => isSameSecret(each, secret)));
  }
}

const KEY_LENGTH = 16;
const keyOf = (kind: string, value: string | Buffer) =>
  createHash('sha256').update(`${kind}:`).update(value).digest('base64url').slice(0, KEY_LENGTH);
