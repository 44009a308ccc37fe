/** Further requests to the platform: MCP's run_sql in each project, and the Kubernetes API as an admin. */
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { LABEL_PROJECT, namespaceOf } from '@slipway/crds';
import type { Network } from '../network.js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';
import { Failed, type Requests } from './requests.js';

const NAMESPACE = 'default';

export class Tools implements Part {
  readonly #url: string;
  readonly #network: Network;
  readonly #apps: readonly App[];
  readonly #random: () => number;
  #count = 0;

  constructor(url: string, network: Network, apps: readonly App[], random: () => number) {
    this.#url = url;
    this.#network = network;
    this.#apps = apps;
    this.#random = random;
  }

  async step(): Promise<void> {
    const n = ++this.#count;
    const { project } = oneOf(this.#random, this.#apps);
    const params = { name: 'run_sql', arguments: { sql: `select ${n} as n, count(*) from entries` } };
    const response = await this.#network.fetch(`${this.#url}/projects/${project.id}/mcp`, {
      method: 'POST',
      headers: {
        apikey: project.service_role_key,
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: n, method: 'tools/call', params }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    if (JSON.parse(text).result?.structuredContent?.rows?.[0]?.n !== n) throw new Error(`MCP says ${text}`);
  }

  lost = async () => [];

  get summary(): string {
    return `${this.#count} calls of run_sql`;
  }
}

const NAMES = 20;

export class Cluster implements Part {
  readonly #kubeconfig: string;
  readonly #apps: readonly App[];
  readonly #requests: Requests;
  readonly #random: () => number;
  readonly #kept = new Kept();
  #count = 0;

  constructor(kubeconfig: string, apps: readonly App[], requests: Requests, random: () => number) {
    this.#kubeconfig = kubeconfig;
    this.#apps = apps;
    this.#requests = requests;
    this.#random = random;
  }

  async step(): Promise<void> {
    if (this.#random() < 0.5) await this.#write(++this.#count);
    else await this.#list();
  }

  async #list(): Promise<void> {
    const { items } = await this.#ask('list namespaces', (api) => api.listNamespace({ labelSelector: LABEL_PROJECT }));
    const names = new Set(items.map(({ metadata }) => metadata?.name));
    const missing = this.#apps.find(({ ref }) => !names.has(namespaceOf(ref)));
    if (missing) throw new Wrong(`the Kubernetes API has no namespace of ${missing.ref}`);
  }

  async #write(n: number): Promise<void> {
    const { names } = this.#kept;
    const name = names.length < NAMES ? `soak-${n}` : oneOf(this.#random, names);
    const body = { metadata: { name }, data: { n: String(n) } };
    await this.#kept.attempt(name, String(n), () =>
      names.includes(name)
        ? this.#ask('replace a ConfigMap', (api) =>
            api.replaceNamespacedConfigMap({ name, namespace: NAMESPACE, body }),
          )
        : this.#ask('create a ConfigMap', (api) => api.createNamespacedConfigMap({ namespace: NAMESPACE, body })),
    );
  }

  #ask<T>(what: string, call: (api: CoreV1Api) => Promise<T>): Promise<T> {
    const config = new KubeConfig();
    config.loadFromFile(this.#kubeconfig);
    return this.#requests.note('Kubernetes API', undefined, what, async () => {
      try {
        return await call(config.makeApiClient(CoreV1Api));
      } catch (error) {
        const { code } = error as { code?: unknown };
        throw new Failed(typeof code === 'number' ? code : 'no connection', { cause: error });
      }
    });
  }

  async lost(): Promise<string[]> {
    const { items } = await this.#ask('list ConfigMaps', (api) =>
      api.listNamespacedConfigMap({ namespace: NAMESPACE }),
    );
    const found = new Map(items.map(({ metadata, data }) => [metadata?.name, data?.n]));
    return this.#kept.names.flatMap((name) => this.#kept.problem(name, found.get(name)) ?? []);
  }

  get summary(): string {
    return `${this.#count} ConfigMaps written`;
  }
}
