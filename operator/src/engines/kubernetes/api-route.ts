/**
 * Reconciles the route to the management API with the site's settings. In: the caches of existing objects. Out: an
 * Ingress or HTTPRoute, which is restored when somebody changes it. Started by the engine of the operator that leads.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Site } from '@slipway/installation';
import type { Logger } from 'pino';
import type { Children } from './children/children.js';
import { apiRouteOf } from './route.js';

const LOOK_MS = 10_000;

export class ApiRoute {
  readonly #stop = new AbortController();
  #loop: Promise<void> = Promise.resolve();

  constructor(
    private readonly children: Children,
    private readonly site: Site,
    private readonly log: Logger,
  ) {}

  start(): void {
    const route = apiRouteOf(this.site);
    if (route) this.#loop = this.#keep(route);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }

  async #keep(route: NonNullable<ReturnType<typeof apiRouteOf>>): Promise<void> {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      await this.children.ensure(route).catch((error: Error) => {
        this.log.warn({ why: error.message }, 'route to the API not created; retried');
      });
      await sleep(LOOK_MS, undefined, { signal, ref: false }).catch(() => {});
    }
  }
}
