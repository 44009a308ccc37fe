/**
 * Returns the git credentials of a project to one build, once. The controller that starts the build writes the digest
 * of a ticket into its status, and gives the ticket to the build alone. In: a Build that clones, and its ticket. Out:
 * the credentials, or a 401 or 429. The API alone has the keys that decrypt them.
 */
import { createHash } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { isSameSecret, TokenBuckets } from '@slipway/program';
import type { Logger } from 'pino';
import { Problem, retryLater } from '../http/problem.js';
import { ProjectCache } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { LOG } from '../settings/injected.js';
import { BuildResources, type SeenBuild } from './build-resources.js';
import type { GitCredentials } from './deploy.schema.js';

/** Rate limit of wrong tickets from one address. The builds of a cluster share an address. */
export const WRONG_TICKETS = { burst: 60, perSecond: 30 / 60 };
/**
 * Maximum number of attempts to remove the digest. The status may change for another reason between the read and the
 * removal.
 */
const TRIES = 3;

interface Redemption {
  ref: string;
  build: string;
  ticket: string | undefined;
  address: string;
}

@Injectable()
export class BuildTickets {
  private readonly wrongTickets = new TokenBuckets(WRONG_TICKETS);

  constructor(
    private readonly resources: BuildResources,
    private readonly cache: ProjectCache,
    private readonly secrets: SecretsOfProjects,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  /** An unknown project, an unknown build and a wrong ticket get the same response. */
  async redeem({ ref, build, ticket, address }: Redemption): Promise<GitCredentials> {
    if (!ticket) throw wrongTicket();
    const attempts = this.wrongTickets.of(address);
    const wait = attempts.take();
    if (wait > 0) throw retryLater('too_many_requests', 'Too many wrong tickets came from this address.', wait);
    const credentials = await this.redeemOnce(ref, build, ticket);
    attempts.giveBack();
    this.log.info({ ref, build }, 'git credentials sent to a build');
    return credentials;
  }

  /** The digest is removed last, so that a read that fails leaves the ticket valid. */
  private async redeemOnce(ref: string, name: string, ticket: string): Promise<GitCredentials> {
    for (let attempt = 1; attempt <= TRIES; attempt += 1) {
      const project = this.cache.get(ref);
      const build = project && (await this.resources.get(ref, name));
      if (!build || !isTicketOf(build, ticket)) throw wrongTicket();
      const { token, deployKey } = await this.secrets.openGitCredentials(project);
      const isRemoved = await this.resources.setStatus(build, { ticketDigest: null });
      if (isRemoved) return { github_token: token, deploy_key: deployKey };
    }
    throw retryLater('unavailable', 'The build is changed by others at the same time. Try again.', 1);
  }
}

function isTicketOf({ status }: SeenBuild, ticket: string): boolean {
  if (status?.phase !== 'Cloning' || !status.ticketDigest) return false;
  return isSameSecret(createHash('sha256').update(ticket).digest('hex'), status.ticketDigest);
}

const wrongTicket = () =>
  new Problem('unauthorized', 'Send the ticket of a build that clones now, and that was not used, as x-build-ticket.', {
    headers: { 'www-authenticate': 'x-build-ticket' },
  });
