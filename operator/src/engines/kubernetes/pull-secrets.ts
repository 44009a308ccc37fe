/**
 * Copies the site's logins for image registries from the platform's namespace to the namespaces of pods. In: their
 * names, and the Kubernetes API. Out: copies that follow their originals. Called for each project's namespace, and for
 * the namespace of shared Postgres clusters.
 */

import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome } from '../../capabilities/index.js';
import type { Children, DesiredObject } from './children/children.js';
import { ensureAll } from './children/ensure-all.js';

interface Login extends KubeObject {
  type?: string;
  data?: Record<string, string>;
}

/** Milliseconds for which logins are cached. A renewed login is copied after that. */
const KNOWN_MS = 300_000;

export class PullSecrets {
  readonly #client: KubeClient;
  readonly #children: Children;
  readonly #names: readonly string[];
  #known: { logins: Promise<Login[]>; until: number } | undefined;

  constructor(client: KubeClient, children: Children, names: readonly string[]) {
    this.#client = client;
    this.#children = children;
    this.#names = names;
  }

  /** `metadataOf`: returns the metadata of a copy, by the Secret's name. */
  async ensure(metadataOf: (name: string) => KubeObject['metadata']): Promise<EngineOutcome> {
    if (this.#names.length === 0) return { state: 'ready', value: undefined };
    let logins: Login[];
    try {
      logins = await this.#logins();
    } catch (error) {
      if (!isNotFound(error)) throw error;
      const message =
        `images.pullSecrets of the site settings names ${this.#names.join(', ')}, and ${SYSTEM_NAMESPACE} is missing ` +
        'some of these Secrets: create each there, of type kubernetes.io/dockerconfigjson';
      return { state: 'failed', reason: 'PullSecretMissing', message, retry: true };
    }
    return ensureAll(
      this.#children,
      logins.map(({ metadata, type, data }) => {
        const copy = { apiVersion: 'v1', kind: 'Secret', metadata: metadataOf(metadata.name), type, data };
        return copy as unknown as DesiredObject;
      }),
    );
  }

  #logins(): Promise<Login[]> {
    if (this.#known && this.#known.until > performance.now()) return this.#known.logins;
    const path = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;
    const logins = Promise.all(this.#names.map((name) => this.#client.get<Login>(`${path}/${name}`)));
    this.#known = { logins, until: performance.now() + KNOWN_MS };
    logins.catch(() => {
      this.#known = undefined;
    });
    return logins;
  }
}
