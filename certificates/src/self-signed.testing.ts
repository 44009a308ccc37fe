/** Certificates for tests. */
import { createPrivateKey, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** Returns the key and the certificate in PEM. Times are in milliseconds since 1970. */
export async function selfSigned(
  host: string,
  { notBefore = Date.now() - 1_000, notAfter = Date.now() + 90 * 24 * 60 * 60_000 } = {},
): Promise<string> {
  // In this order: the library needs what the first one defines.
  await import('reflect-metadata');
  const x509 = await import('@peculiar/x509');
  const keys = (await webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${host}`,
    keys,
    signingAlgorithm: ALGORITHM,
    notBefore: new Date(notBefore),
    notAfter: new Date(notAfter),
    extensions: [new x509.SubjectAlternativeNameExtension([{ type: isIP(host) ? 'ip' : 'dns', value: host }])],
  });
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  const key = createPrivateKey({ key: der, type: 'pkcs8', format: 'der' });
  return `${key.export({ type: 'pkcs8', format: 'pem' })}${certificate.toString('pem')}\n`;
}
