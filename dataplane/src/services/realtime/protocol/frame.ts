/**
 * Encodes a WebSocket message as one unmasked, uncompressed frame (RFC 6455, 5.2), which is built once and written to
 * any number of sockets.
 */
export type Frame = Buffer;

const FINAL = 0x80;
const TEXT = 1;
const BINARY = 2;

type Part = string | Buffer;

export const textFrame = (...parts: Part[]): Frame => frame(TEXT, parts);

export const binaryFrame = (bytes: Buffer): Frame => frame(BINARY, [bytes]);

const bytesOf = (part: Part) => (typeof part === 'string' ? Buffer.byteLength(part) : part.length);

function frame(opcode: number, parts: Part[]): Frame {
  const length = parts.reduce((sum, part) => sum + bytesOf(part), 0);
  const header = length < 126 ? 2 : length < 65_536 ? 4 : 10;
  const bytes = Buffer.allocUnsafe(header + length);
  bytes[0] = FINAL | opcode;
  if (header === 2) bytes[1] = length;
  else if (header === 4) {
    bytes[1] = 126;
    bytes.writeUInt16BE(length, 2);
  } else {
    bytes[1] = 127;
    bytes.writeBigUInt64BE(BigInt(length), 2);
  }
  let at = header;
  for (const part of parts) at += typeof part === 'string' ? bytes.write(part, at) : part.copy(bytes, at);
  return bytes;
}
