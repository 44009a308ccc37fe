/**
 * Every Project as the Kubernetes API last showed it, by ref: one list, then a watch that goes on from where it broke
 * and lists anew only when the server has forgotten that place. What this program writes is `put` here at once, so that
 * whoever wrote reads it; an older event never takes it back.
 */
import { setTimeout as wait } from 'node:timers/promises';
import type { Project } from '@slipway/crds';
import type { Logger } from 'pino';
import type { Kubernetes, WatchEvent } from './client.js';

const FIRST_DELAY_MS = 100;
const LONGEST_DELAY_MS = 10_000;
/** A deleted object is remembered for as many deletions, so that a late answer to a write does not bring it back. */
const REMEMBERED_DELETIONS = 1000;

export type SeenProject = Project & { metadata: { uid: string; resourceVersion: string; creationTimestamp: string } };

export class ProjectCache {
  private byRef = new Map<string, SeenProject>();
  private readonly deleted = new Set<string>();
  private readonly stopped = new AbortController();
  private readonly listeners = new Set<() => void>();
  private running: Promise<void> | undefined;
  private resourceVersion = '';
  private connected = false;

  constructor(
    private readonly kubernetes: Kubernetes,
    private readonly log: Logger,
  ) {}

  /** Resolves once all Projects are known. */
  async start(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.running = this.follow(resolve);
    await Promise.race([promise, this.running]);
  }

  async stop(): Promise<void> {
    this.stopped.abort();
    await this.running;
  }

  /** Whether what is here is what the server has, but for the moment an event takes. */
  get synced(): boolean {
    return this.connected;
  }

  get(ref: string): SeenProject | undefined {
    return this.byRef.get(ref);
  }

  all(): IterableIterator<SeenProject> {
    return this.byRef.values();
  }

  /** Calls `listener` whenever a Project has come or gone, or its spec has changed. */
  onChange(listener: () => void): void {
    this.listeners.add(listener);
  }

  /** The answer to a write of our own. */
  put(project: Project): SeenProject {
    const seen = lean(project);
    if (this.deleted.has(seen.metadata.uid)) return seen;
    const known = this.byRef.get(seen.metadata.name);
    if (known && isNewer(known, seen)) return known;
    this.byRef.set(seen.metadata.name, seen);
    if (known?.metadata.uid !== seen.metadata.uid || known.metadata.generation !== seen.metadata.generation)
      this.announce();
    return seen;
  }

  /** A delete of our own left nothing of it. */
  remove(project: SeenProject): void {
    this.forget(project);
  }

  private async follow(synced: () => void): Promise<void> {
    let delay = FIRST_DELAY_MS;
    while (!this.stopped.signal.aborted) {
      try {
        if (this.resourceVersion === '') await this.list();
        synced();
        this.connected = true;
        await this.kubernetes.watchProjects(this.resourceVersion, (event) => this.see(event), this.stopped.signal);
        delay = FIRST_DELAY_MS;
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        delay = this.afterFailure(error, delay);
      }
      await wait(delay * (0.5 + Math.random()), undefined, { signal: this.stopped.signal }).catch(() => undefined);
    }
  }

  private afterFailure(error: unknown, delay: number): number {
    const { name, statusCode } = error as { name?: string; statusCode?: number };
    // Nothing came for a while, which is no failure: go on from the same place.
    if (name === 'TimeoutError') return FIRST_DELAY_MS;
    if (statusCode === 410) this.resourceVersion = '';
    else this.connected = false;
    this.log.warn({ err: error }, 'the watch of Projects broke; it goes on');
    return Math.min(delay * 2, LONGEST_DELAY_MS);
  }

  private async list(): Promise<void> {
    const { items, metadata } = await this.kubernetes.listProjects();
    const listed = new Map(items.map((item) => [item.metadata.name, lean(item)]));
    for (const known of this.byRef.values()) {
      if (!listed.has(known.metadata.name) && versionOf(known) > BigInt(metadata.resourceVersion)) {
        listed.set(known.metadata.name, known);
      }
    }
    this.byRef = listed;
    this.resourceVersion = metadata.resourceVersion;
    this.announce();
  }

  private see({ type, object }: WatchEvent): void {
    if (type === 'ERROR') {
      if ((object as unknown as { code?: number }).code === 410) this.resourceVersion = '';
      return;
    }
    this.resourceVersion = object.metadata.resourceVersion ?? this.resourceVersion;
    if (type === 'DELETED') this.forget(lean(object));
    else if (type !== 'BOOKMARK') this.put(object);
  }

  private forget(project: SeenProject): void {
    const { name, uid } = project.metadata;
    this.deleted.add(uid);
    const [oldest] = this.deleted;
    if (this.deleted.size > REMEMBERED_DELETIONS && oldest) this.deleted.delete(oldest);
    if (this.byRef.get(name)?.metadata.uid === uid) this.byRef.delete(name);
    this.announce();
  }

  /** Calls every listener: something changed that they compare Projects with. */
  announce(): void {
    for (const listener of this.listeners) listener();
  }
}

const versionOf = (project: SeenProject) => BigInt(project.metadata.resourceVersion);
const isNewer = (a: SeenProject, b: SeenProject) => a.metadata.uid === b.metadata.uid && versionOf(a) > versionOf(b);

/** When an owner last changed it: what managers other than of the status say. */
export const ANNOTATION_UPDATED = 'slipway.dev/updated-at';

/** Without what only the server needs, which is most of the memory it would take. */
function lean(project: Project): SeenProject {
  const { managedFields, ...metadata } = project.metadata as Project['metadata'] & { managedFields?: ManagedField[] };
  const times = (managedFields ?? []).filter(({ subresource }) => !subresource).map(({ time }) => time ?? '');
  const updated = [metadata.annotations?.[ANNOTATION_UPDATED] ?? '', metadata.creationTimestamp ?? '', ...times];
  const annotations = { ...metadata.annotations, [ANNOTATION_UPDATED]: updated.reduce(later) };
  return { ...project, metadata: { ...metadata, annotations } } as SeenProject;
}
interface ManagedField {
  subresource?: string;
  time?: string;
}
const later = (a: string, b: string) => (Date.parse(b) > (Date.parse(a) || 0) ? b : a);
