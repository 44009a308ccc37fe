/**
 * Pseudo-random numbers that are the same for the same seed. A test prints its seed, so that its choices can be
 * repeated.
 */

export const newSeed = () => Date.now() & 0x7fffffff;

/** Returns a generator of numbers from 0 to 1, without 1 (mulberry32): small, and the same on every system. */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
