/**
 * Writes the rules of this machine for containers again and again: a reload of its firewall removes them, and a link to
 * the outside may be new. In: a log. Nothing is written before the first app has containers.
 */
import type { Logger } from 'pino';
import { foreignDrops, openRouting } from './machine-routing.js';

const LOOK_MS = 60_000;

export class RoutingWatch {
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #drops = '';

  constructor(private readonly log: Logger) {}

  start(): void {
    if (this.#timer) return;
    this.#look();
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  /** The rules stay, as containers of other platforms need them. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#writing;
  }

  #look(): void {
    this.#writing = this.#write().catch((error) => {
      this.log.error({ err: error }, 'rules for the network of apps not written');
    });
  }

  async #write(): Promise<void> {
    await openRouting();
    const chains = await foreignDrops();
    const drops = chains.join(', ');
    if (drops !== this.#drops && chains.length > 0) {
      this.log.warn({ chains }, 'another firewall drops forwarded packets');
    }
    this.#drops = drops;
  }
}
