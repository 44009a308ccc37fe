/**
 * Verifies the service_role key of an MCP request. In: a project's id, the key, the caller's network. Out: the project
 * and its key, or a 401 or 429. A wrong key costs no database read.
 */
import { Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/installation';
import { isSameSecret, networkOf, TokenBuckets } from '@slipway/program';
import { jwtVerify } from 'jose';
import { Problem, retryLater } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { ProjectIds } from '../projects/project-ids.js';
import { type Keys, RecentKeys } from '../projects/recent-keys.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';

/** Rate limit of wrong keys from one network. */
export const WRONG_KEYS = { burst: 60, perSecond: 30 / 60 };
@Injectable()
export class McpKeys {
  private readonly wrongKeys = new TokenBuckets(WRONG_KEYS);

  constructor(
    private readonly ids: ProjectIds,
    private readonly recentKeys: RecentKeys,
  ) {}

  /** An unknown project and a wrong key get the same response. */
  async prove(
    id: number,
    apikey: string | undefined,
    address: string,
  ): Promise<{ project: SeenProject; serviceRoleKey: string }> {
    if (!apikey) throw wrongKey();
    const network = networkOf(address);
    const project = await this.ids.settledProjectOf(id);
    const wait = this.wrongKeys.of(network).take();
    // A client with the right key may share its network with a guesser: the cached key recognises it.
    if (wait > 0 && !(await this.isKnown(project, apikey))) {
      throw retryLater('too_many_requests', 'Too many wrong keys came from this network. Try again later.', wait);
    }
    // A project without keys reports its type, and nothing else.
    if (project) refuseWithoutDatabase(project, 'MCP endpoint');
    const keys = project && (await this.recentKeys.opened(project, (read) => opens(read, apikey)));
    const serviceRoleKey = keys?.[SECRETS.keys.serviceRoleKey];
    if (!project || !serviceRoleKey) throw wrongKey();
    if (wait === 0) this.wrongKeys.of(network).giveBack();
    return { project, serviceRoleKey };
  }

  private async isKnown(project: SeenProject | undefined, apikey: string): Promise<boolean> {
    const known = project && this.recentKeys.last(project);
    return known !== undefined && opens(known, apikey);
  }
}

const wrongKey = () =>
  new Problem('unauthorized', 'Send the project’s service_role key in the header `apikey`.', {
    headers: { 'www-authenticate': 'apikey' },
  });

/** True for the project's key. During a rotation it is also true for a key that the other secret signed. */
async function opens(keys: Keys, apikey: string): Promise<boolean> {
  if (isSameSecret(apikey, keys[SECRETS.keys.serviceRoleKey] ?? '')) return true;
  const { nextJwtSecret, previousJwtSecret, jwtSecret } = SECRETS.keys;
  for (const secret of [keys[jwtSecret], keys[nextJwtSecret], keys[previousJwtSecret]]) {
    if (!secret) continue;
    const verified = await jwtVerify(apikey, new TextEncoder().encode(secret), { algorithms: ['HS256'] }).catch(
      () => undefined,
    );
    if (verified) return verified.payload.role === 'service_role';
  }
  return false;
}
