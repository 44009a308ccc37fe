/** Random names of lowercase letters, for refs and database ids. */
import { randomInt } from 'node:crypto';

const LETTERS = 'abcdefghijklmnopqrstuvwxyz';

/** Returns `count` letters from a cryptographic source; 20 letters are 94 bits. */
export const randomLetters = (count: number) =>
  Array.from({ length: count }, () => LETTERS[randomInt(LETTERS.length)]).join('');
