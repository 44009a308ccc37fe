/** Reads the body of a response into memory, at most `mostBytes`. If the body is larger, the connection is closed. */
export async function readBounded(
  body: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  mostBytes: number,
  refusal = () => new Error(`the response is larger than ${mostBytes} bytes`),
): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw refusal();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
