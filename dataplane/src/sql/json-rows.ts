/**
 * Decodes rows that Postgres sends as one text: JSON between separators that cannot occur in JSON. The rows are decoded
 * one by one, so that a large number of them takes several turns of the event loop.
 */
import { STEP_BYTES, type Steps } from '../bounds/turns.js';

/** Separator as an SQL literal. */
export const ROW_SEPARATOR = "E'\\x1e'";
const SEPARATOR = 0x1e;

/** Decodes the rows with `onRow`. Yields after each step's bytes. */
export function* jsonRowsOf(text: Buffer, onRow: (row: Buffer) => void): Steps<void> {
  for (let at = 0, pause = STEP_BYTES; at < text.length; ) {
    if (at >= pause) {
      yield;
      pause = at + STEP_BYTES;
    }
    const next = text.indexOf(SEPARATOR, at);
    const end = next < 0 ? text.length : next;
    onRow(text.subarray(at, end));
    at = end + 1;
  }
}
