/**
 * Limits the cost of the rules of one object. Every iterated element and every searched part of a text is charged, so a
 * hostile rule ends with an error instead of blocking the server. Evaluation is synchronous, so one meter is enough.
 * `startMeter` begins an object's validation.
 */
const MOST_PER_OBJECT = 1_000_000;
const CHARACTERS_PER_UNIT = 64;

let left = MOST_PER_OBJECT;

export class CostExceeded extends Error {
  constructor() {
    super('cost limit exceeded');
  }
}

export function startMeter(): void {
  left = MOST_PER_OBJECT;
}

export const isExhausted = () => left < 0;

export function charge(units: number): void {
  left -= units;
  if (left < 0) throw new CostExceeded();
}

export const chargeText = (text: string) => charge(1 + text.length / CHARACTERS_PER_UNIT);
