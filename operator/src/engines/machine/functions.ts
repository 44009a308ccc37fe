/** Functions on one machine. The data plane runs them, and receives requests at its control socket. */

import type { FunctionEngine, FunctionOutcome, FunctionRequest } from '../../capabilities/index.js';
import { FunctionControl } from '../function-control.js';

export class EmbeddedFunctions implements FunctionEngine {
  readonly #control: FunctionControl;

  constructor(socketPath: string) {
    this.#control = new FunctionControl({ socketPath });
  }

  ensureFunction(request: FunctionRequest): Promise<FunctionOutcome> {
    return this.#control.ensure(request);
  }

  removeFunction(ref: string, name: string): Promise<void> {
    return this.#control.remove(ref, name);
  }

  close(): Promise<void> {
    return this.#control.close();
  }
}

/** Returns the engine of an installation that runs no functions. `how`: the way to enable them. */
export const noFunctions = (how: string): FunctionEngine => ({
  ensureFunction: async () => ({
    state: 'refused',
    problems: [{ message: `this installation runs no edge functions: ${how}` }],
  }),
  removeFunction: async () => undefined,
});
