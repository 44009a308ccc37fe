/**
 * Certificates that a program signs itself, for peers that know them. It loads the library of X.509, which only those
 * programs need.
 */
import { createPrivateKey, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';

/** Both in PEM. */
export interface SelfSigned {
  certificate: string;
  /** In PKCS#8. */
  privateKey: string;
}

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

/** `host`: a name or an IP address. Times are in milliseconds since 1970. */
export async function selfSigned(
  host: string,
  { notBefore, notAfter }: { notBefore: number; notAfter: number },
): Promise<SelfSigned> {
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
  return {
    certificate: `${certificate.toString('pem')}\n`,
    privateKey: key.export({ type: 'pkcs8', format: 'pem' }) as string,
  };
}
