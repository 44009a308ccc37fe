/**
 * Verifies the webhook secret of a project, with which git hosts deploy without an account. In: a project's id, a proof
 * of its secret, and the caller's address. Out: the project, or a 401 or 429. All customers of a git host call from the
 * same addresses, so a correct proof is accepted however many wrong proofs its network sends.
 */
import { Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/installation';
import { networkOf, TokenBuckets } from '@slipway/program';
import { Problem, retryLater } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { ProjectIds } from '../projects/project-ids.js';
import { type Keys, RecentKeys } from '../projects/recent-keys.js';

/** Rate limit of wrong tokens and signatures from one network. */
export const WRONG_PROOFS = { burst: 60, perSecond: 30 / 60 };

@Injectable()
export class WebhookSecrets {
  private readonly wrongProofs = new TokenBuckets(WRONG_PROOFS);

  constructor(
    private readonly ids: ProjectIds,
    private readonly recentKeys: RecentKeys,
  ) {}

  /** Returns undefined if the proof is wrong, or there is no such project. An empty secret proves nothing. */
  async projectOf(
    id: number,
    proves: (secret: string) => boolean | Promise<boolean>,
  ): Promise<SeenProject | undefined> {
    const project = await this.ids.settledProjectOf(id);
    const opens = ({ [SECRETS.keys.webhookSecret]: secret }: Keys) => (secret ? proves(secret) : false);
    const opened = project && (await this.recentKeys.opened(project, opens));
    return opened ? project : undefined;
  }

  /** Returns the error for a caller with a wrong proof and without an account. */
  refusal(address: string): Problem {
    const wait = this.wrongProofs.of(networkOf(address)).take();
    if (wait > 0)
      return retryLater('too_many_requests', 'Too many wrong tokens and signatures came from this network.', wait);
    const detail =
      'Neither a token nor a signature of the request is made of the webhook_secret of such a project. ' +
      'Send the current webhook_url, sign with the secret, or send a bearer token of the owner.';
    return new Problem('unauthorized', detail, { headers: { 'www-authenticate': 'Bearer' } });
  }
}
