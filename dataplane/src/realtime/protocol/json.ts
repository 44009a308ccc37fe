/** JSON that clients send. */

/** V8 reads any depth, and throws at writing what its stack does not hold: a few thousand levels. */
const MAX_NESTING = 512;
const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const OPENING = new Set([0x5b, 0x7b]);
const CLOSING = new Set([0x5d, 0x7d]);

/** Undefined: it is no JSON, or nests too deep to be passed on. */
export function parseJson(bytes: Buffer): unknown {
  if (nestsTooDeep(bytes)) return undefined;
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}

function nestsTooDeep(bytes: Buffer): boolean {
  // Each level takes two bytes.
  if (bytes.length <= 2 * MAX_NESTING) return false;
  let depth = 0;
  let isQuoted = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) isQuoted = !isQuoted;
    else if (isQuoted) at += byte === BACKSLASH ? 1 : 0;
    else if (CLOSING.has(byte)) depth--;
    else if (OPENING.has(byte) && ++depth > MAX_NESTING) return true;
  }
  return false;
}
