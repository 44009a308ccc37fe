/**
 * Verifies the service_role key of an MCP request. In: a project's id, the key, the caller's network. Out: the project
 * and its key, or a 401 or 429. A wrong key costs no database read, and at most one read of a project's Secret a
 * second, whoever sends how many.
 */
import { timingSafeEqual } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { SECRETS } from '@slipway/crds';
import { jwtVerify } from 'jose';
import { networkOf, RateLimit } from '../accounts/rate-limit.js';
import { Problem, retryLater } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { ProjectIds } from '../projects/project-ids.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';

/** Wrong keys of one network: so many at once, then so many a minute. */
export const WRONG_KEYS = { burst: 60, perMinute: 30 };
/** A key that does not match what was read this recently is wrong without another read. */
const FRESH_MS = 1000;
const MOST_PROJECTS = 10_000;

type Keys = Record<string, string>;

interface KnownKeys {
  keys: Keys;
  /** When the read began, on the monotonic clock. */
  readAt: number;
  /** The operator's write to the Project's status after a rotation changes it. */
  resourceVersion: string;
}

@Injectable()
export class McpKeys {
  private readonly wrongKeys = new RateLimit(WRONG_KEYS.burst, WRONG_KEYS.perMinute);
  /** By uid of the Project, least recently read first. */
  private readonly known = new Map<string, KnownKeys>();
  private readonly reading = new Map<string, Promise<Keys>>();

  constructor(
    private readonly ids: ProjectIds,
    private readonly secrets: SecretsOfProjects,
  ) {}

  /** A project that does not exist, and a key that is not its own, get the same answer. */
  async prove(
    id: number,
    apikey: string | undefined,
    address: string,
  ): Promise<{ project: SeenProject; serviceRoleKey: string }> {
    if (!apikey) throw wrongKey();
    const network = networkOf(address);
    const project = await this.projectOf(id);
    const wait = this.wrongKeys.take(network);
    // Callers who have the key may share a network with one who guesses: what was read before recognises them.
    if (wait > 0 && !(await this.isKnown(project, apikey))) {
      throw retryLater('too_many_requests', 'Too many wrong keys came from this network. Try again later.', wait);
    }
    const keys = project && (await this.keysFor(project, apikey));
    const serviceRoleKey = keys?.[SECRETS.keys.serviceRoleKey];
    if (!project || !serviceRoleKey) throw wrongKey();
    if (wait === 0) this.wrongKeys.giveBack(network);
    return { project, serviceRoleKey };
  }

  private async projectOf(id: number): Promise<SeenProject | undefined> {
    const project = this.ids.projectOf(id);
    if (project) return project;
    // A project that was just created is in the look that is under way.
    await this.ids.settled();
    return this.ids.projectOf(id);
  }

  private async isKnown(project: SeenProject | undefined, apikey: string): Promise<boolean> {
    const known = project && this.known.get(project.metadata.uid);
    return known !== undefined && opens(known.keys, apikey);
  }

  /** The project's keys if `apikey` opens them. A key that seems right is compared with what the Secret has now. */
  private async keysFor(project: SeenProject, apikey: string): Promise<Keys | undefined> {
    const { uid, resourceVersion } = project.metadata;
    const known = this.known.get(uid);
    const isFresh =
      known?.resourceVersion === resourceVersion && performance.now() - known.readAt < FRESH_MS ? known : undefined;
    if (isFresh && !(await opens(isFresh.keys, apikey))) return undefined;
    const keys = await this.read(project);
    return (await opens(keys, apikey)) ? keys : undefined;
  }

  /** Requests that come while one read is under way share the next one: what they get was read after they came. */
  private async read(project: SeenProject): Promise<Keys> {
    const { uid } = project.metadata;
    const running = this.reading.get(uid);
    if (running) await running.catch(() => undefined);
    const next = this.reading.get(uid) ?? this.readNow(project);
    return next;
  }

  private readNow(project: SeenProject): Promise<Keys> {
    const { uid, resourceVersion } = project.metadata;
    const readAt = performance.now();
    const reading = this.secrets
      .keys(project)
      .then((found) => {
        const keys = found ?? {};
        this.known.delete(uid);
        this.known.set(uid, { keys, readAt, resourceVersion });
        const [oldest] = this.known.keys();
        if (this.known.size > MOST_PROJECTS && oldest !== undefined) this.known.delete(oldest);
        return keys;
      })
      .finally(() => this.reading.delete(uid));
    this.reading.set(uid, reading);
    return reading;
  }
}

const wrongKey = () =>
  new Problem('unauthorized', 'Send the project’s service_role key in the header `apikey`.', {
    headers: { 'www-authenticate': 'apikey' },
  });

/** The key as it is; and while secrets are rotated one that another of them signed, as the data plane takes it too. */
async function opens(keys: Keys, apikey: string): Promise<boolean> {
  if (isSame(apikey, keys[SECRETS.keys.serviceRoleKey] ?? '')) return true;
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

function isSame(given: string, own: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(own)];
  return a.length === b.length && timingSafeEqual(a, b);
}
