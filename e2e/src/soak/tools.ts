/** Further requests to the platform: MCP's run_sql in each project, and the Kubernetes API as an administrator. */

import { LABEL_PROJECT, namespaceOf } from '@slipway/installation';
import { type KubeClient, KubeError, type KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import type { Network } from '../network.js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';
import { Failed, type Requests } from './requests.js';

const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';

interface List {
  items: (KubeObject & { data?: Record<string, string> })[];
}

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
    const query = { labelSelector: LABEL_PROJECT };
    const { items } = await this.#ask('list namespaces', (client) => client.get<List>('/api/v1/namespaces', query));
    const names = new Set(items.map(({ metadata }) => metadata.name));
    const missing = this.#apps.find(({ ref }) => !names.has(namespaceOf(ref)));
    if (missing) throw new Wrong(`the Kubernetes API has no namespace of ${missing.ref}`);
  }

  async #write(n: number): Promise<void> {
    const { names } = this.#kept;
    const name = names.length < NAMES ? `soak-${n}` : oneOf(this.#random, names);
    const body = { metadata: { name }, data: { n: String(n) } };
    await this.#kept.attempt(name, String(n), () =>
      names.includes(name)
        ? this.#ask('replace a ConfigMap', (client) =>
            client.request({ method: 'PUT', path: `${CONFIG_MAPS}/${name}`, body }),
          )
        : this.#ask('create a ConfigMap', (client) => client.create<object>(CONFIG_MAPS, body)),
    );
  }

  #ask<T>(what: string, call: (client: KubeClient) => Promise<T>): Promise<T> {
    return this.#requests.note('Kubernetes API', undefined, what, async () => {
      try {
        return await withClient(this.#kubeconfig, call);
      } catch (error) {
        throw new Failed(error instanceof KubeError ? error.status : 'no connection', { cause: error });
      }
    });
  }

  async lost(): Promise<string[]> {
    const { items } = await this.#ask('list ConfigMaps', (client) => client.get<List>(CONFIG_MAPS));
    const found = new Map(items.map(({ metadata, data }) => [metadata.name, data?.n]));
    return this.#kept.names.flatMap((name) => this.#kept.problem(name, found.get(name)) ?? []);
  }

  get summary(): string {
    return `${this.#count} ConfigMaps written`;
  }
}
