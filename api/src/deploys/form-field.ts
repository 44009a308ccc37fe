/** Decodes one field of a form (application/x-www-form-urlencoded), in steps. In: bytes. Out: the field's bytes. */
import type { Steps } from '@slipway/program';

const MOST_FIELDS = 100;
const STEP_BYTES = 64 * 1024;
const [PLUS, SPACE, PERCENT] = [0x2b, 0x20, 0x25];

/** Returns undefined if the field is not among the first fields of the form. */
export function* formField(form: Buffer, name: string): Steps<Buffer | undefined> {
  const prefix = `${name}=`;
  for (let fields = 0, from = 0; fields < MOST_FIELDS && from < form.length; fields++) {
    const next = form.indexOf('&', from);
    const end = next === -1 ? form.length : next;
    const field = form.subarray(from, end);
    if (field.toString('latin1', 0, prefix.length) === prefix) return yield* decoded(field.subarray(prefix.length));
    from = end + 1;
  }
  return undefined;
}

/** A percent sign that begins no escape is literal, as in the URL standard. */
function* decoded(value: Buffer): Steps<Buffer> {
  const bytes = Buffer.alloc(value.length);
  let length = 0;
  for (let at = 0; at < value.length; at++) {
    const byte = value[at] as number;
    const escaped = byte === PERCENT ? escapedAt(value, at + 1) : undefined;
    bytes[length++] = escaped ?? (byte === PLUS ? SPACE : byte);
    if (escaped !== undefined) at += 2;
    if (length % STEP_BYTES === 0) yield;
  }
  return bytes.subarray(0, length);
}

function escapedAt(value: Buffer, at: number): number | undefined {
  const [high, low] = [digitOf(value[at]), digitOf(value[at + 1])];
  return high === undefined || low === undefined ? undefined : high * 16 + low;
}

/** Returns the value of a hexadecimal digit. */
function digitOf(byte = 0): number | undefined {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const letter = byte | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x61 + 10 : undefined;
}
