/**
 * A whole WebSocket message as one unmasked, uncompressed frame (RFC 6455, 5.2): built once, written to any number of
 * sockets.
 */
export type Frame = Buffer;

const FINAL = 0x80;
const TEXT = 1;
const BINARY = 2;

export const textFrame = (text: string): Frame => frame(TEXT, Buffer.byteLength(text), (to, at) => to.write(text, at));

export const binaryFrame = (bytes: Buffer): Frame => frame(BINARY, bytes.length, (to, at) => bytes.copy(to, at));

function frame(opcode: number, length: number, write: (to: Buffer, at: number) => unknown): Frame {
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
  write(bytes, header);
  return bytes;
}
