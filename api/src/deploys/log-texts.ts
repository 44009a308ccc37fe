/** Reads a log as texts. In: bytes at positions. Out: texts that end with a whole character, and where they end. */

/** A log that may grow while it is read. */
export interface ReadableLog {
  /** Returns the positions of the first byte that is kept, and after the last one. */
  kept(): Promise<{ start: number; end: number }>;
  /** Returns at most `most` bytes from `position`. Returns no bytes at the end of the log. */
  read(position: number, most: number): Promise<Buffer>;
}

export const EMPTY: ReadableLog = { kept: async () => ({ start: 0, end: 0 }), read: async () => Buffer.alloc(0) };

const PIECE_BYTES = 64 * 1024;

/** Yields the bytes from `start` on, up to what is written so far. */
export async function* piecesOf(log: ReadableLog, start: number): AsyncGenerator<Buffer> {
  for (let position = start; ; ) {
    const piece = await log.read(position, PIECE_BYTES);
    if (piece.length === 0) return;
    position += piece.length;
    yield piece;
  }
}

/**
 * Yields the log from `start` on, up to what is written so far, in texts with the position of their ends. A partial
 * character at the end is withheld until the log is complete.
 */
export async function* textsOf(
  log: ReadableLog,
  start: number,
  isComplete: boolean,
): AsyncGenerator<{ text: string; end: number }> {
  for (let position = start; ; ) {
    const piece = await log.read(position, PIECE_BYTES);
    const isLast = position + piece.length >= (await log.kept()).end;
    const shown = isLast && isComplete ? piece : wholeCharacters(piece);
    // A section that ends within a character has no second half.
    const taken = shown.length === 0 && !isLast ? piece : shown;
    if (taken.length === 0) return;
    position += taken.length;
    yield { text: taken.toString(), end: position };
  }
}

/** Returns the position where the last `lines` lines begin, at most `most` bytes before the end. */
export async function startOfLast(log: ReadableLog, lines: number, most: number): Promise<number> {
  const { start, end } = await log.kept();
  const first = Math.max(start, end - most);
  let [left, isEnd] = [lines, true];
  for (let to = end; to > first; to = Math.max(first, to - PIECE_BYTES)) {
    const from = Math.max(first, to - PIECE_BYTES);
    const bytes = await bytesBetween(log, from, to);
    // The rest is deleted by now.
    if (bytes.length < to - from) return to;
    for (let index = bytes.length - 1; index >= 0; index -= 1) {
      // The line break at the very end ends the last line.
      if (bytes[index] === LINE_FEED && !isEnd) left -= 1;
      isEnd = false;
      if (left === 0) return from + index + 1;
    }
  }
  return first;
}

/** Returns the bytes from `from` to `to`, or fewer if the log ends before. */
export async function bytesBetween(log: ReadableLog, from: number, to: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for (let position = from; position < to; ) {
    const piece = await log.read(position, to - position);
    if (piece.length === 0) break;
    position += piece.length;
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

const LINE_FEED = 0x0a;

/** Returns the bytes without an incomplete UTF-8 character at their end. */
function wholeCharacters(bytes: Buffer): Buffer {
  for (let index = bytes.length - 1; index >= Math.max(0, bytes.length - 4); index -= 1) {
    const byte = bytes[index] as number;
    if ((byte & 0xc0) === 0x80) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
    return index + length > bytes.length ? bytes.subarray(0, index) : bytes;
  }
  return bytes;
}
