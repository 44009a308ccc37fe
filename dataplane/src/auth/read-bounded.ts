/** The answer of somebody whom a project's settings name, as text of at most so many bytes; of more, `refusal`. */
export async function readBounded(answer: Response, mostBytes: number, refusal: () => Error): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of answer.body ?? []) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw refusal();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
