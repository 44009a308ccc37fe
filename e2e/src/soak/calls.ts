/** Calls edge functions, which return the id of the process that runs them. */
import { oneOf } from '../random.js';
import { type App, FUNCTION } from './app.js';
import { type Part, Wrong } from './load.js';

export class Calls implements Part {
  readonly #apps: readonly App[];
  readonly #random: () => number;
  #count = 0;

  constructor(apps: readonly App[], random: () => number) {
    this.#apps = apps;
    this.#random = random;
  }

  async step(): Promise<void> {
    await this.isolateOf(oneOf(this.#random, this.#apps));
  }

  /** Returns the process id of the isolate that responds now. */
  async isolateOf({ ann }: App): Promise<number> {
    const call = ++this.#count;
    const { data, error } = await ann.functions.invoke<{ pid: number; call: number }>(FUNCTION, { body: { call } });
    if (error) throw error;
    if (data?.call !== call) throw new Wrong(`call ${call} got the response of ${data?.call}`);
    return data.pid;
  }

  async lost(): Promise<string[]> {
    const lost: string[] = [];
    for (const app of this.#apps) {
      await this.isolateOf(app).catch((error: Error) =>
        lost.push(`the function of ${app.ref} is lost: ${error.message}`),
      );
    }
    return lost;
  }

  get summary(): string {
    return `${this.#count} function calls`;
  }
}
