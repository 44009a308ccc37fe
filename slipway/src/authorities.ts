/**
 * The certificate authorities that the programs and the tenants' builds and functions trust. In: SLIPWAY_CA_FILE. Out:
 * one file with the system's authorities and these. Read at each start.
 */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { rootCertificates } from 'node:tls';
import { writeAtomically } from '@slipway/postgres';
import type { Home } from './home.js';
import { StartProblem } from './problem.js';

export const CA_FILE_SETTING = 'SLIPWAY_CA_FILE';

/** Files of the system's authorities: Debian, Fedora, openSUSE, and Alpine and macOS. */
const SYSTEM_FILES = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
];

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/**
 * Returns the certificates of the file.
 * @throws StartProblem if it has none, or one that is damaged
 */
export function readAuthorities(file: string): string[] {
  const reject = (why: string | undefined) =>
    new StartProblem(
      `${CA_FILE_SETTING} is "${file}": it must be a readable file in PEM with certificates of authorities (${why})`,
    );
  try {
    const found = readFileSync(file, 'utf8').match(CERTIFICATE) ?? [];
    if (found.length === 0) throw reject('it has no certificate');
    for (const certificate of found) new X509Certificate(certificate);
    return found;
  } catch (error) {
    if (error instanceof StartProblem) throw error;
    throw reject((error as NodeJS.ErrnoException).code ?? (error as Error).message);
  }
}

/** Writes the file for the programs, and returns its path. Builds read it as another account. */
export async function writeAuthorities(home: Pick<Home, 'programs'>, file: string): Promise<string> {
  const bundle = path.join(home.programs, 'authorities.pem');
  await writeAtomically(bundle, `${[...systemAuthorities(), ...readAuthorities(file)].join('\n')}\n`, 0o644);
  return bundle;
}

/** Returns the system's authorities, or those of Node if the system has none. */
function systemAuthorities(): readonly string[] {
  for (const file of SYSTEM_FILES) {
    try {
      const found = readFileSync(file, 'utf8').match(CERTIFICATE);
      if (found) return found;
    } catch {
      // The next system's file.
    }
  }
  return rootCertificates;
}
