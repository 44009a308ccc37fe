/**
 * Caches the content of projects' key Secrets, to verify callers who have a project's key and no account. However many
 * wrong keys arrive, a project's Secret is read at most once a second.
 */
import { Injectable } from '@nestjs/common';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from './project-secrets.js';

/**
 * Milliseconds after a read of the Secret in which a key that does not match the cache is rejected without another
 * read.
 */
const FRESH_MS = 1000;
const MOST_PROJECTS = 10_000;

export type Keys = Record<string, string>;
type Opens = (keys: Keys) => boolean | Promise<boolean>;

interface KnownKeys {
  keys: Keys;
  /** Time at which the read began, by the monotonic clock. */
  readAt: number;
  /** Changes when the operator writes the Project's status after a rotation. */
  resourceVersion: string;
}

@Injectable()
export class RecentKeys {
  /** Cache entries by uid of the Project, least recently read first. */
  private readonly known = new Map<string, KnownKeys>();
  private readonly reading = new Map<string, Promise<Keys>>();

  constructor(private readonly secrets: SecretsOfProjects) {}

  /** Returns the cached keys, however old. */
  last({ metadata }: SeenProject): Keys | undefined {
    return this.known.get(metadata.uid)?.keys;
  }

  /**
   * Returns the project's keys if `opens` accepts them. A match with the cache is confirmed with the present Secret.
   */
  async opened(project: SeenProject, opens: Opens): Promise<Keys | undefined> {
    const { uid, resourceVersion } = project.metadata;
    const known = this.known.get(uid);
    const isFresh =
      known?.resourceVersion === resourceVersion && performance.now() - known.readAt < FRESH_MS ? known : undefined;
    if (isFresh && !(await opens(isFresh.keys))) return undefined;
    const keys = await this.read(project);
    return (await opens(keys)) ? keys : undefined;
  }

  /** Requests that arrive during a read share the next one, so that each result was read after its request. */
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
      .then((content) => {
        const keys = content ?? {};
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
