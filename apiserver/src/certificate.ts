/** Makes a certificate authority and a server certificate, for a machine without certificates. */
import 'reflect-metadata';
import { webcrypto as crypto } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';

const DAY_MS = 24 * 60 * 60_000;
const YEARS_MS = 10 * 365 * DAY_MS;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

export interface Certificates {
  /** Certificate of the authority in PEM. */
  ca: string;
  cert: string;
  key: string;
}

/** @param hosts names and addresses of the server */
export async function makeCertificates(hosts: readonly string[], now = new Date()): Promise<Certificates> {
  const authority = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const server = await crypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);
  const period = { notBefore: new Date(now.getTime() - DAY_MS), notAfter: new Date(now.getTime() + YEARS_MS) };
  const ca = await x509.X509CertificateGenerator.createSelfSigned(
    {
      ...{ name: 'CN=slipway-ca', keys: authority, signingAlgorithm: ALGORITHM, ...period },
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(authority.publicKey, false, crypto),
      ],
    },
    crypto,
  );
  const cert = await x509.X509CertificateGenerator.create(
    {
      ...{ subject: 'CN=slipway-apiserver', issuer: ca.subject, publicKey: server.publicKey, ...period },
      ...{ signingKey: authority.privateKey, signingAlgorithm: ALGORITHM },
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension(
          hosts.map((value) => ({ type: isIP(value) ? ('ip' as const) : ('dns' as const), value })),
        ),
      ],
    },
    crypto,
  );
  const key = Buffer.from(await crypto.subtle.exportKey('pkcs8', server.privateKey)).toString('base64');
  return {
    ca: ca.toString('pem'),
    cert: cert.toString('pem'),
    key: x509.PemConverter.encode(Buffer.from(key, 'base64'), 'PRIVATE KEY'),
  };
}
