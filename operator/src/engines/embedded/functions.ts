/** On one machine the data plane runs functions: it is told over its control socket. */
import { Agent } from 'undici';
import type { FunctionEngine, FunctionOutcome, FunctionRequest } from '../function-engine.js';

/** Fetching what a function imports takes its time; the data plane gives up before this. */
const PATIENCE_MS = 180_000;

export class EmbeddedFunctions implements FunctionEngine {
  readonly #agent: Agent;

  constructor(socketPath: string) {
    this.#agent = new Agent({ connect: { socketPath }, headersTimeout: PATIENCE_MS, allowH2: false });
  }

  async ensureFunction({ ref, name, version, code, verifyJwt }: FunctionRequest): Promise<FunctionOutcome> {
    const answer = await this.#ask('PUT', ref, name, JSON.stringify({ version, code, verifyJwt }));
    return answer ?? { state: 'busy', message: 'the data plane does not answer' };
  }

  async removeFunction(ref: string, name: string): Promise<void> {
    if (!(await this.#ask('DELETE', ref, name))) throw new Error('the data plane does not answer');
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #ask(method: 'PUT' | 'DELETE', ref: string, name: string, body?: string): Promise<FunctionOutcome | undefined> {
    try {
      const path = `/${encodeURIComponent(ref)}/${encodeURIComponent(name)}`;
      const answer = await this.#agent.request({ origin: 'http://functions', path, method, ...(body ? { body } : {}) });
      const said = await answer.body.json();
      return answer.statusCode === 200 ? (said as FunctionOutcome) : undefined;
    } catch {
      return undefined;
    }
  }
}

/** For an installation that runs no functions. */
export const noFunctions: FunctionEngine = {
  ensureFunction: async () => ({
    state: 'refused',
    problems: [{ message: 'this installation runs no edge functions' }],
  }),
  removeFunction: async () => undefined,
};
