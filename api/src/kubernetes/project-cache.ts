/**
 * Caches every Project by ref, from a watch of the Kubernetes API. When this program writes a Project, it adds the
 * response at once by `put`, so that the program reads its own writes. An older event never replaces that entry.
 */
import type { Project } from '@slipway/crds';
import { type Change, Informer, type KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import { PROJECTS } from './client.js';

export type SeenProject = Project & { metadata: { uid: string; resourceVersion: string; creationTimestamp: string } };

export class ProjectCache {
  readonly #informer: Informer<SeenProject>;
  readonly #listeners = new Set<() => void>();
  readonly #waiting = new Set<(ref: string) => void>();
  readonly #observers = new Set<(ref: string) => void>();

  constructor(client: KubeClient, log: Logger) {
    this.#informer = new Informer({ client, resource: 'projects', path: PROJECTS, keep: lean, log });
    this.#informer.onChange((change) => {
      if (isOfSpec(change)) this.announce();
      const { name } = (change.after ?? change.before)?.metadata ?? {};
      for (const look of name === undefined ? [] : [...this.#waiting, ...this.#observers]) look(name as string);
    });
  }

  /** Resolves once all Projects are known. */
  start(): Promise<void> {
    return this.#informer.start();
  }

  stop(): Promise<void> {
    return this.#informer.close();
  }

  /** True while the watch is connected: then the cache is at most one event behind. */
  get synced(): boolean {
    return this.#informer.isCurrent;
  }

  get(ref: string): SeenProject | undefined {
    return this.#informer.get(ref);
  }

  all(): SeenProject[] {
    return this.#informer.list();
  }

  /** Calls `listener` when a Project is added or deleted, or its spec changes. */
  onChange(listener: () => void): void {
    this.#listeners.add(listener);
  }

  /** Calls `observer` with the ref of each Project that changes in any way. */
  observe(observer: (ref: string) => void): void {
    this.#observers.add(observer);
  }

  /**
   * Resolves with the first result of `look` that is not undefined: now, or after a change of the Project. If the
   * signal aborts, it resolves with undefined.
   */
  until<T>(ref: string, look: (project: SeenProject | undefined) => T | undefined, signal: AbortSignal) {
    return new Promise<T | undefined>((resolve) => {
      const end = (result: T | undefined) => {
        this.#waiting.delete(lookAgain);
        signal.removeEventListener('abort', onAbort);
        resolve(result);
      };
      const lookAgain = (changed: string) => {
        const result = changed === ref ? look(this.get(ref)) : undefined;
        if (result !== undefined) end(result);
      };
      const onAbort = () => end(undefined);
      this.#waiting.add(lookAgain);
      signal.addEventListener('abort', onAbort);
      if (signal.aborted) onAbort();
      else lookAgain(ref);
    });
  }

  /** Stores the response to a write of this program. Returns the newest known state. */
  put(project: Project): SeenProject {
    const answer = project as SeenProject;
    this.#informer.learn(answer);
    const known = this.get(answer.metadata.name);
    return known?.metadata.uid === answer.metadata.uid ? known : lean(answer);
  }

  /** Removes a Project that this program's delete removed at once. */
  remove(project: SeenProject): void {
    this.#informer.forget(project);
  }

  /** Calls every listener, because state outside of the cache changed with which they compare Projects. */
  announce(): void {
    for (const listener of this.#listeners) listener();
  }
}

const isOfSpec = ({ before, after }: Change<SeenProject>) =>
  before?.metadata.uid !== after?.metadata.uid || before?.metadata.generation !== after?.metadata.generation;

/** Returns the time of the owner's last change of the Project, from its managed fields other than the status. */
export const ANNOTATION_UPDATED = 'slipway.dev/updated-at';

/** Drops metadata of the server, which is most of an object's memory. */
function lean(project: SeenProject): SeenProject {
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
