/** The widgets on the API server: created once, changed before each run, checked after it, deleted at the end. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isConflict, isNotFound, type KubeClient, KubeError } from '@slipway/kubernetes';
import { DEFINITION, healthyStatus, isObserved, NAMESPACE, WIDGETS_PATH, type Widget, widget } from './resource.js';

const AT_ONCE = 16;
const DEFINITIONS_PATH = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const GONE_TIMEOUT_MS = 60_000;
/**
 * Statuses of requests for a new definition, which is not served at first, and whose storage is not ready after that.
 */
const NOT_YET = new Set([404, 429, 503]);

export class Widgets {
  readonly #client: KubeClient;
  readonly #count: number;
  #changes = 0;

  constructor(client: KubeClient, count: number) {
    this.#client = client;
    this.#count = count;
  }

  async create(): Promise<void> {
    const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } };
    await this.#client.create('/api/v1/namespaces', namespace).catch(unlessConflict);
    await this.#client.create<object>(DEFINITIONS_PATH, DEFINITION).catch(unlessConflict);
    await this.#untilServed();
    await this.#forEach(this.#count, async (name) => {
      await this.#client.create(WIDGETS_PATH, widget(name));
      await this.#client.patch(`${WIDGETS_PATH}/${name}/status`, { status: healthyStatus(name) });
    });
  }

  async #untilServed(): Promise<void> {
    const deadline = Date.now() + GONE_TIMEOUT_MS;
    while (Date.now() < deadline) {
      const served = await this.#client.get(WIDGETS_PATH).catch((error) => {
        if (!(error instanceof KubeError && NOT_YET.has(error.status))) throw error;
      });
      if (served) return;
      await sleep(50);
    }
    throw new Error(`${DEFINITION.metadata.name} is not served`);
  }

  /** Gives `count` widgets a new generation, so that their status is behind. */
  async change(count: number): Promise<void> {
    const spec = { rotation: { apiKeys: ++this.#changes } };
    await this.#forEach(count, (name) => this.#client.patch(`${WIDGETS_PATH}/${name}`, { spec }));
  }

  /** Throws unless the status of every widget has the widget's generation. */
  async verify(): Promise<void> {
    const { items } = await this.#client.get<{ items: Widget[] }>(WIDGETS_PATH);
    const behind = items.filter((widget) => !isObserved(widget));
    if (items.length !== this.#count) throw new Error(`${items.length} widgets instead of ${this.#count}`);
    if (behind.length > 0) throw new Error(`the status of ${behind.length} widgets is behind`);
  }

  /** Deletes everything that `create` made, and the remains of earlier runs. */
  async remove(): Promise<void> {
    for (const path of [`${DEFINITIONS_PATH}/${DEFINITION.metadata.name}`, `/api/v1/namespaces/${NAMESPACE}`]) {
      await this.#client.delete(path).catch(unlessNotFound);
      const deadline = Date.now() + GONE_TIMEOUT_MS;
      while (await this.#client.get(path).catch(unlessNotFound)) {
        if (Date.now() > deadline) throw new Error(`${path} was not deleted in time`);
        await sleep(100);
      }
    }
  }

  async #forEach(count: number, work: (name: string) => Promise<unknown>): Promise<void> {
    let next = 0;
    const worker = async () => {
      while (next < count) await work(`widget-${next++}`);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }
}

function unlessConflict(error: unknown): undefined {
  if (!isConflict(error)) throw error;
}

function unlessNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}
