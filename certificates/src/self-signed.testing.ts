/** Certificates for tests. */
import { selfSigned as signed } from './self-signed.js';

/** Returns the key and the certificate in PEM. Times are in milliseconds since 1970. */
export async function selfSigned(
  host: string,
  { notBefore = Date.now() - 1_000, notAfter = Date.now() + 90 * 24 * 60 * 60_000 } = {},
): Promise<string> {
  const { privateKey, certificate } = await signed(host, { notBefore, notAfter });
  return privateKey + certificate;
}
