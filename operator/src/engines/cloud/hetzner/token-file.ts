/** Reads the provider's token from its file, for each request: a replaced token is used at once. */
import { open } from 'node:fs/promises';
import { ProviderError } from '../provider-error.js';

/** A token has 64 characters. */
const MOST_BYTES = 1024;

export async function readToken(file: string): Promise<string> {
  const text = await textOf(file).catch((error: NodeJS.ErrnoException) => {
    throw new ProviderError('unauthorized', `The file of the cloud provider's token can't be read (${error.code}).`);
  });
  const token = text.trim();
  if (/^[\x21-\x7e]+$/.test(token) && text.length <= MOST_BYTES) return token;
  throw new ProviderError('unauthorized', "The file of the cloud provider's token does not contain a token.");
}

async function textOf(file: string): Promise<string> {
  const handle = await open(file);
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MOST_BYTES + 1), 0, MOST_BYTES + 1, 0);
    return buffer.toString('latin1', 0, bytesRead);
  } finally {
    await handle.close();
  }
}
