/** On one machine the data plane runs functions: it is told over its control socket. */
import { FunctionControl } from '../function-control.js';
import type { FunctionEngine, FunctionOutcome, FunctionRequest } from '../function-engine.js';

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

/** For an installation that runs no functions; `how` it would. */
export const noFunctions = (how: string): FunctionEngine => ({
  ensureFunction: async () => ({
    state: 'refused',
    problems: [{ message: `this installation runs no edge functions: ${how}` }],
  }),
  removeFunction: async () => undefined,
});
