/**
 * Issues the Kubernetes API's certificate. The platform has its own certificate authority, valid for ten years. The
 * server certificate is issued again when it is about to expire or the address changes. In: the folder and the names.
 * Out: paths of PEM files.
 */
import { createPrivateKey, webcrypto, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import path from 'node:path';
import { writeAtomically } from '@slipway/postgres';

export interface ServerCertificate {
  /** PEM file of the authority, for clients. */
  authority: string;
  certificateFile: string;
  keyFile: string;
}

const DAY_MS = 24 * 60 * 60_000;
const AUTHORITY_DAYS = 3650;
const SERVER_DAYS = 365;
const RENEW_BEFORE_DAYS = 60;
const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' };

export async function serverCertificate(folder: string, names: string[]): Promise<ServerCertificate> {
  const authority = pairIn(folder, 'ca');
  const server = pairIn(folder, 'server');
  if (!(await isUsable(authority, []))) await issueAuthority(authority);
  const issuer = new X509Certificate(await readFile(authority.certificate));
  if (!(await isUsable(server, names, issuer))) await issueServer(server, authority, names);
  return {
    authority: await readFile(authority.certificate, 'utf8'),
    certificateFile: server.certificate,
    keyFile: server.key,
  };
}

interface Pair {
  certificate: string;
  key: string;
}

const pairIn = (folder: string, name: string): Pair => ({
  certificate: path.join(folder, `${name}.crt`),
  key: path.join(folder, `${name}.key`),
});

/** True if certificate and key exist, belong together, cover `names`, and are valid for long enough. */
async function isUsable(pair: Pair, names: string[], issuer?: X509Certificate): Promise<boolean> {
  try {
    const certificate = new X509Certificate(await readFile(pair.certificate));
    const covers = (name: string) =>
      (isIP(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined;
    return (
      certificate.checkPrivateKey(createPrivateKey(await readFile(pair.key))) &&
      certificate.validToDate.getTime() > Date.now() + RENEW_BEFORE_DAYS * DAY_MS &&
      names.every(covers) &&
      (!issuer || certificate.verify(issuer.publicKey))
    );
  } catch {
    // Missing or damaged: another certificate is issued either way.
    return false;
  }
}

/** Loads the library only to issue a certificate, because it is large. */
async function library() {
  await import('reflect-metadata');
  return await import('@peculiar/x509');
}

const validFor = (days: number) => ({
  // Clocks of clients may be a little behind.
  notBefore: new Date(Date.now() - DAY_MS),
  notAfter: new Date(Date.now() + days * DAY_MS),
});

const newKeys = () => webcrypto.subtle.generateKey(ALGORITHM, true, ['sign', 'verify']);

async function issueAuthority(pair: Pair): Promise<void> {
  const x509 = await library();
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: 'CN=slipway',
    keys,
    signingAlgorithm: ALGORITHM,
    ...validFor(AUTHORITY_DAYS),
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  await save(pair, certificate.toString('pem'), keys.privateKey);
}

async function issueServer(pair: Pair, authority: Pair, names: string[]): Promise<void> {
  const x509 = await library();
  const issuer = new x509.X509Certificate(await readFile(authority.certificate, 'utf8'));
  const signingKey = await webcrypto.subtle.importKey(
    'pkcs8',
    createPrivateKey(await readFile(authority.key)).export({ type: 'pkcs8', format: 'der' }),
    ALGORITHM,
    false,
    ['sign'],
  );
  const keys = await newKeys();
  const certificate = await x509.X509CertificateGenerator.create({
    subject: 'CN=slipway-apiserver',
    issuer: issuer.subject,
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    ...validFor(SERVER_DAYS),
    extensions: [
      new x509.BasicConstraintsExtension(false),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(
        names.map((value) => ({ type: isIP(value) ? ('ip' as const) : ('dns' as const), value })),
      ),
      await x509.AuthorityKeyIdentifierExtension.create(issuer.publicKey),
    ],
  });
  await save(pair, certificate.toString('pem'), keys.privateKey);
}

async function save(pair: Pair, certificate: string, privateKey: webcrypto.CryptoKey): Promise<void> {
  const der = await webcrypto.subtle.exportKey('pkcs8', privateKey);
  const key = createPrivateKey({ key: Buffer.from(der), type: 'pkcs8', format: 'der' });
  await writeAtomically(pair.key, key.export({ type: 'pkcs8', format: 'pem' }) as string);
  await writeAtomically(pair.certificate, `${certificate}\n`);
}
