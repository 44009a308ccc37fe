/**
 * Probes whether the data plane knows a project's site. In: a ref, and the site's address. Out: the progress. At the
 * platform's address, the path of a site returns 404 with a Link to the site's own address.
 */
import { Agent } from 'undici';
import type { EngineOutcome } from '../capabilities/index.js';
import { lookQuickly } from './quick-looks.js';

const TIMEOUT_MS = 3_000;
const CONNECTIONS = 8;
const LOOK_AGAIN_MS = 2_000;

export class SiteProbe {
  readonly #agent = new Agent({ connections: CONNECTIONS, allowH2: false, headersTimeout: TIMEOUT_MS });

  constructor(private readonly dataplaneUrl: string) {}

  async ask(ref: string, siteUrl: string): Promise<EngineOutcome> {
    const result = await lookQuickly(
      () => this.#look(ref, siteUrl),
      (found) => found === 'known',
    );
    if (result === 'known') return { state: 'ready', value: undefined };
    return { state: 'progressing', message: `waiting for the site (${result}) to answer`, lookAgainMs: LOOK_AGAIN_MS };
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  /** Returns `known`, or another response in a few words. */
  async #look(ref: string, siteUrl: string): Promise<string> {
    try {
      const { statusCode, headers, body } = await this.#agent.request({
        origin: new URL(this.dataplaneUrl).origin,
        path: `/p/${ref}`,
        method: 'HEAD',
        bodyTimeout: TIMEOUT_MS,
      });
      await body.dump();
      return String(headers.link).startsWith(`<${siteUrl}>`) ? 'known' : `HTTP ${statusCode}`;
    } catch (error) {
      return (error as { code?: string }).code ?? 'no answer';
    }
  }
}
