/**
 * Decides whether a thread hangs. In: periodic measurements of its turns and processor time. Out: true once one turn
 * used too much processor time. Time in which the thread does not run is not counted: when it is stopped, the machine
 * sleeps, or other processes use the processors.
 */
export class HangJudge {
  readonly #limitMs: number;
  #turns = -1;
  #beginMs = 0;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  isHung(turns: number, processorMs: number): boolean {
    if (turns !== this.#turns) {
      this.#turns = turns;
      this.#beginMs = processorMs;
    }
    return processorMs - this.#beginMs >= this.#limitMs;
  }
}
