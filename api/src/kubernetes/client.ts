/**
 * The Kubernetes API as this program needs it: Projects, their namespaces and Secrets, and the operator's lease. Every
 * call ends by a deadline, and a failure that the caller did not ask about becomes a 503.
 */
import {
  ApiException,
  CoordinationV1Api,
  CoreV1Api,
  CustomObjectsApi,
  type KubeConfig,
  type RequestContext,
  setHeaderMiddleware,
  setHeaderOptions,
  type V1Lease,
  type V1Secret,
  Watch,
} from '@kubernetes/client-node';
import { Injectable } from '@nestjs/common';
import {
  ANNOTATION_RETAINED_FOR,
  GROUP,
  LABEL_PROJECT,
  LABEL_RETAINED,
  namespaceOf,
  OPERATOR_LEASE,
  type Project,
  SYSTEM_NAMESPACE,
  VERSION,
} from '@slipway/crds';
import { Problem } from '../http/problem.js';
import { PooledKubeConfig } from './pooled-kube-config.js';

const PROJECTS = { group: GROUP, version: VERSION, plural: 'projects' };
const PROJECTS_PATH = `/apis/${GROUP}/${VERSION}/projects`;
const DEADLINE_MS = 10_000;

type Options = NonNullable<Parameters<CustomObjectsApi['patchClusterCustomObject']>[1]>;

export interface ProjectList {
  items: Project[];
  metadata: { resourceVersion: string };
}
export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR';
  object: Project;
}

@Injectable()
export class Kubernetes {
  private readonly objects: CustomObjectsApi;
  private readonly core: CoreV1Api;
  private readonly leases: CoordinationV1Api;
  private readonly watcher: Watch;

  constructor(config: KubeConfig) {
    this.objects = config.makeApiClient(CustomObjectsApi);
    this.core = config.makeApiClient(CoreV1Api);
    this.leases = config.makeApiClient(CoordinationV1Api);
    this.watcher = new Watch(config);
  }

  listProjects(): Promise<ProjectList> {
    return this.call((options) => this.objects.listClusterCustomObject(PROJECTS, options)) as Promise<ProjectList>;
  }

  /**
   * Calls `each` in order until the watch ends; resolves then, and rejects with what the server or the network said.
   */
  async watchProjects(resourceVersion: string, each: (event: WatchEvent) => void, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const query = { resourceVersion, allowWatchBookmarks: true };
    // client-node would swallow an error, and the event be missing for good.
    const see = (type: WatchEvent['type'], object: Project) => {
      try {
        each({ type, object });
      } catch (error) {
        reject(error);
      }
    };
    const done = (error: unknown) => (error ? reject(error) : resolve());
    const controller = await this.watcher.watch(PROJECTS_PATH, query, see as never, done);
    const abort = () => controller.abort();
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
    await promise.finally(() => signal.removeEventListener('abort', abort));
  }

  getProject(ref: string): Promise<Project | undefined> {
    return unlessMissing(
      this.call((options) => this.objects.getClusterCustomObject({ ...PROJECTS, name: ref }, options)),
    );
  }

  createProject(body: Project): Promise<Project> {
    return this.call((options) => this.objects.createClusterCustomObject({ ...PROJECTS, body }, options));
  }

  /**
   * A merge patch. With a `uid` or a `resourceVersion` in its metadata, the server rejects it (409) for another object
   * or version.
   */
  patchProject(ref: string, body: object): Promise<Project | undefined> {
    const request = { ...PROJECTS, name: ref, body };
    return unlessMissing(this.call((options) => this.objects.patchClusterCustomObject(request, asMergePatch(options))));
  }

  /** Deletes this very object; another of the same name stays. Answers what is left of it while finalizers run. */
  async deleteProject(ref: string, uid: string): Promise<Project | undefined> {
    const request = { ...PROJECTS, name: ref, body: { preconditions: { uid } } };
    const call = this.call((options) => this.objects.deleteClusterCustomObject(request, options));
    const left: Project | undefined = await unlessMissing(call).catch((error: unknown) => {
      if (isConflict(error)) return undefined;
      throw error;
    });
    return left?.kind === 'Project' ? left : undefined;
  }

  async getSecret(ref: string, name: string): Promise<Record<string, string> | undefined> {
    const request = { name, namespace: namespaceOf(ref) };
    const secret = await unlessMissing(this.call((options) => this.core.readNamespacedSecret(request, options)));
    return secret && contentOf(secret);
  }

  /** Makes the Secret, or puts this content in place of what it has. */
  async putSecret(secret: V1Secret & { metadata: { name: string; namespace: string } }): Promise<void> {
    const { name, namespace } = secret.metadata;
    try {
      await this.call((options) => this.core.createNamespacedSecret({ namespace, body: secret }, options));
    } catch (error) {
      if (!isConflict(error)) throw error;
      await this.call((options) => this.core.replaceNamespacedSecret({ name, namespace, body: secret }, options));
    }
  }

  /**
   * Replaces a Secret's content by the result of `rewrite`, unless that is undefined. Rejects with a conflict (409) if
   * somebody else has changed the Secret meanwhile.
   */
  async rewriteSecret(
    ref: string,
    name: string,
    rewrite: (content: Record<string, string>) => Record<string, string> | undefined,
  ): Promise<'missing' | 'unchanged' | 'rewritten'> {
    const request = { name, namespace: namespaceOf(ref) };
    const secret = await unlessMissing(this.call((options) => this.core.readNamespacedSecret(request, options)));
    if (!secret) return 'missing';
    const content = rewrite(contentOf(secret));
    if (!content) return 'unchanged';
    const body = { ...secret, data: dataOf(content) };
    await this.call((options) => this.core.replaceNamespacedSecret({ ...request, body }, options));
    return 'rewritten';
  }

  /** Merges into a Secret that exists; false where there is none. */
  async patchSecret(ref: string, name: string, stringData: Record<string, string>): Promise<boolean> {
    const request = { name, namespace: namespaceOf(ref), body: { data: dataOf(stringData) } };
    const patched = await unlessMissing(
      this.call((options) => this.core.patchNamespacedSecret(request, asMergePatch(options))),
    );
    return patched !== undefined;
  }

  async deleteSecret(ref: string, name: string): Promise<void> {
    await unlessMissing(
      this.call((options) => this.core.deleteNamespacedSecret({ name, namespace: namespaceOf(ref) }, options)),
    );
  }

  async ensureNamespace(body: NonNullable<Parameters<CoreV1Api['createNamespace']>[0]>['body']): Promise<void> {
    try {
      await this.call((options) => this.core.createNamespace({ body }, options));
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }

  /** The deleted projects whose data is retained, and the address that each is retained for. */
  async retainedNamespaces(): Promise<{ ref: string; owner: string }[]> {
    const request = { labelSelector: `${LABEL_RETAINED}=true` };
    const { items } = await this.call((options) => this.core.listNamespace(request, options));
    return items.map(({ metadata }) => ({
      ref: metadata?.labels?.[LABEL_PROJECT] ?? '',
      owner: metadata?.annotations?.[ANNOTATION_RETAINED_FOR] ?? '',
    }));
  }

  operatorLease(): Promise<V1Lease | undefined> {
    const request = { name: OPERATOR_LEASE, namespace: SYSTEM_NAMESPACE };
    return unlessMissing(this.call((options) => this.leases.readNamespacedLease(request, options)));
  }

  /** For a feature's own kinds: answers undefined where there is no such object. */
  unlessMissing<T>(request: (options: Options) => Promise<T>): Promise<T | undefined> {
    return unlessMissing(this.call(request));
  }

  async call<T>(request: (options: Options) => Promise<T>): Promise<T> {
    try {
      return await repeatedOnce(request);
    } catch (error) {
      if (error instanceof ApiException && (error.code === 400 || error.code === 422)) {
        throw new Problem('bad_request', messageOf(error));
      }
      if (error instanceof ApiException && error.code < 500 && error.code !== 429) throw error;
      throw new Problem('unavailable', 'The Kubernetes API does not answer. Try again.', {
        headers: { 'retry-after': '2' },
        cause: reason(error),
      });
    }
  }
}

const contentOf = ({ data = {} }: V1Secret): Record<string, string> =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

const dataOf = (content: Record<string, string>): Record<string, string> =>
  Object.fromEntries(Object.entries(content).map(([key, value]) => [key, Buffer.from(value).toString('base64')]));

/** Returns the message of a `Status`. */
function messageOf({ body }: ApiException<unknown>): string {
  try {
    const status = (typeof body === 'string' ? JSON.parse(body) : body) as { message?: string };
    return status.message ?? 'The Kubernetes API refused it.';
  } catch {
    return 'The Kubernetes API refused it.';
  }
}

/** Returns the error without the request's body and headers, which may carry secrets. */
const reason = (error: unknown) =>
  error instanceof ApiException ? new Error(`the Kubernetes API answered ${error.code}`) : error;

export const isConflict = (error: unknown) => error instanceof ApiException && error.code === 409;

async function unlessMissing<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof ApiException && error.code === 404) return undefined;
    throw error;
  }
}

/**
 * Sends the request, and once more if its connection broke before a response and the request is safe to repeat: the
 * server closes a kept connection, as at its end, in the same moment as the request goes out. Any other may have been
 * done, so it fails.
 */
async function repeatedOnce<T>(request: (options: Options) => Promise<T>): Promise<T> {
  let isSafe = false;
  const note = (sent: RequestContext) => {
    isSafe = isSafeToRepeat(sent);
  };
  try {
    return await request(withDeadline(note));
  } catch (error) {
    if (!isSafe || !isBrokenConnection(error)) throw error;
    return await request(withDeadline());
  }
}

const BROKEN = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);
const isBrokenConnection = (error: unknown) =>
  error instanceof TypeError && BROKEN.has((error.cause as { code?: string } | undefined)?.code ?? '');

/** A read, or a deletion of the very object: done twice, its effect is the same. */
function isSafeToRepeat(request: RequestContext): boolean {
  const method = request.getHttpMethod().toString();
  const body = request.getBody();
  return (
    method === 'GET' || (method === 'DELETE' && typeof body === 'string' && /"preconditions":\{"uid":"/.test(body))
  );
}

const JSON_ACCEPTED = setHeaderMiddleware('Accept', 'application/json');

const withDeadline = (note: (request: RequestContext) => void = () => undefined): Options => ({
  middleware: [
    {
      pre: (request) => {
        note(request);
        request.setSignal(AbortSignal.timeout(DEADLINE_MS));
        return JSON_ACCEPTED.pre(request);
      },
      post: (response) => JSON_ACCEPTED.post(response),
    },
  ],
  middlewareMergeStrategy: 'append',
});

const asMergePatch = (options: Options) => setHeaderOptions('Content-Type', 'application/merge-patch+json', options);

export function kubeConfig(path: string | undefined): PooledKubeConfig {
  const config = new PooledKubeConfig();
  if (path) config.loadFromFile(path);
  else config.loadFromCluster();
  return config;
}
