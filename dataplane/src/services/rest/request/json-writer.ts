/**
 * Writes JSON as bytes, because values of a form or a CSV may have megabytes, and must never become strings. Bytes that
 * are not UTF-8 are written unchanged, and Postgres rejects them.
 */
import { STEP_BYTES } from '../../../bounds/turns.js';
import { RestError } from '../errors.js';

/**
 * Maximum bytes of the JSON. A CSV becomes larger: each row repeats the column names, and a control character takes six
 * bytes.
 */
const MOST_BYTES = 32 * 1024 * 1024;
const LONGEST_ESCAPE = 6;

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const HEX = Buffer.from('0123456789abcdef');

export class JsonWriter {
  #bytes: Buffer;
  #length = 0;

  constructor(expectedBytes: number) {
    this.#bytes = Buffer.allocUnsafe(Math.min(expectedBytes, MOST_BYTES));
  }

  get written(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  raw(text: string | Buffer): void {
    this.#reserve(text.length);
    if (typeof text === 'string') this.#length += this.#bytes.write(text, this.#length, 'latin1');
    else this.#length += text.copy(this.#bytes, this.#length);
  }

  /**
   * Writes the content of a JSON string, at most one step's bytes. Returns the position at which the next call
   * continues. `isDoubled`: each quote in the text is doubled.
   */
  escaped(text: Buffer, from: number, end: number, isDoubled = false): number {
    const until = Math.min(end, from + STEP_BYTES);
    this.#reserve((until - from) * LONGEST_ESCAPE);
    const bytes = this.#bytes;
    let length = this.#length;
    let at = from;
    for (; at < until; at++) {
      const byte = text[at] as number;
      if (byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH) {
        bytes[length++] = byte;
      } else if (byte < 0x20) {
        length += bytes.write('\\u00', length, 'latin1');
        bytes[length++] = HEX[byte >> 4] as number;
        bytes[length++] = HEX[byte & 15] as number;
      } else {
        bytes[length++] = BACKSLASH;
        bytes[length++] = byte;
        if (isDoubled && byte === QUOTE) at++;
      }
    }
    this.#length = length;
    return at;
  }

  #reserve(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.length) return;
    // Allocating the longest escape for every byte would be more than most texts need.
    if (this.#length > MOST_BYTES) throw tooLarge();
    const grown = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(grown, 0, 0, this.#length);
    this.#bytes = grown;
  }
}

const tooLarge = () =>
  new RestError(
    413,
    'PGRST102',
    `The rows of the body would be more than ${MOST_BYTES} bytes as JSON: send fewer of them`,
  );
