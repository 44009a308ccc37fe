/**
 * The settings of HTTPS on one machine. In: the environment, and the public URL. Out: addresses of two ports, and the
 * source of certificates: a certificate authority, or files. Each error names the setting and the fix.
 */
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { StartProblem } from './problem.js';

export interface TlsSettings {
  /** `host:port` of HTTPS. */
  https: string;
  /** `host:port` of HTTP. Undefined: there is no HTTP port. */
  http: string | undefined;
  /** The data plane's variables with the certificate for all hosts. Empty: certificates are ordered. */
  files: Readonly<Record<string, string>>;
  /** The operator's variables with the authority. Undefined: no certificate is ordered. */
  acme: Readonly<Record<string, string>> | undefined;
}

/** URL of the directory of Let's Encrypt, whose certificates are free and accepted by all browsers. */
const LETS_ENCRYPT = 'https://acme-v02.api.letsencrypt.org/directory';
/** Address of both address families, if the machine has both. */
const EVERYWHERE = '[::]';

/** Settings that mean nothing without SLIPWAY_HTTPS_PORT. */
const OTHERS = [
  'SLIPWAY_HTTP_PORT',
  'SLIPWAY_CERTIFICATE',
  'SLIPWAY_CERTIFICATE_KEY',
  'SLIPWAY_ACME_DIRECTORY',
  'SLIPWAY_ACME_EMAIL',
  'SLIPWAY_ACME_CERTIFICATES',
];

export function readTlsSettings(
  environment: NodeJS.ProcessEnv,
  { folder, publicUrl }: { folder: string; publicUrl: string },
): TlsSettings | undefined {
  if (!environment.SLIPWAY_HTTPS_PORT) {
    for (const name of OTHERS) {
      if (environment[name]) throw new StartProblem(`${name} is set: set SLIPWAY_HTTPS_PORT too, such as 443`);
    }
    return undefined;
  }
  const { protocol, hostname } = new URL(publicUrl);
  if (protocol !== 'https:')
    throw new StartProblem(
      `SLIPWAY_HTTPS_PORT is set: set SLIPWAY_PUBLIC_URL too, such as https://backend.example.com`,
    );
  const https = address('SLIPWAY_HTTPS_PORT', environment.SLIPWAY_HTTPS_PORT);
  const http = environment.SLIPWAY_HTTP_PORT && address('SLIPWAY_HTTP_PORT', environment.SLIPWAY_HTTP_PORT);
  const files = readFiles(environment, folder);
  if (files === undefined) expectProvable(hostname, http);
  return {
    https,
    http: http || undefined,
    files: files ?? {},
    acme: files === undefined ? readAcme(environment, folder) : undefined,
  };
}

/** Throws if the authority can't validate the host name, which it does at port 80. */
function expectProvable(hostname: string, http: string | undefined): void {
  if (!http) {
    throw new StartProblem(
      'SLIPWAY_HTTPS_PORT is set without a certificate: set SLIPWAY_HTTP_PORT=80, where the certificate authority ' +
        'connects, or SLIPWAY_CERTIFICATE and SLIPWAY_CERTIFICATE_KEY',
    );
  }
  if (isIP(hostname.replace(/^\[|\]$/g, '')) || !hostname.includes('.') || hostname.endsWith('.localhost')) {
    throw new StartProblem(
      `SLIPWAY_PUBLIC_URL has the host ${hostname}, for which no authority issues a certificate: ` +
        'set a host name of the internet, or SLIPWAY_CERTIFICATE and SLIPWAY_CERTIFICATE_KEY',
    );
  }
}

function readFiles(environment: NodeJS.ProcessEnv, folder: string): Record<string, string> | undefined {
  const { SLIPWAY_CERTIFICATE: certificate, SLIPWAY_CERTIFICATE_KEY: key } = environment;
  if (!certificate && !key) return undefined;
  if (!certificate || !key)
    throw new StartProblem('set both SLIPWAY_CERTIFICATE and SLIPWAY_CERTIFICATE_KEY, files in PEM');
  const files = {
    SLIPWAY_CERTIFICATE: path.resolve(folder, certificate),
    SLIPWAY_CERTIFICATE_KEY: path.resolve(folder, key),
  };
  try {
    createSecureContext({
      cert: readFileSync(files.SLIPWAY_CERTIFICATE),
      key: readFileSync(files.SLIPWAY_CERTIFICATE_KEY),
    });
  } catch (error) {
    throw new StartProblem(
      `SLIPWAY_CERTIFICATE and SLIPWAY_CERTIFICATE_KEY must be a certificate and its key, readable files in PEM ` +
        `(${(error as NodeJS.ErrnoException).code ?? (error as Error).message})`,
    );
  }
  return files;
}

function readAcme(environment: NodeJS.ProcessEnv, folder: string): Record<string, string> {
  const directory = environment.SLIPWAY_ACME_DIRECTORY || LETS_ENCRYPT;
  const email = environment.SLIPWAY_ACME_EMAIL;
  if (!/^https:\/\/[^/?#@\s]+\/\S*$/.test(directory) || !URL.canParse(directory)) {
    throw new StartProblem(`SLIPWAY_ACME_DIRECTORY is "${directory}": it must be a URL such as ${LETS_ENCRYPT}`);
  }
  if (email && !/^[^@\s]+@[^@\s]+$/.test(email))
    throw new StartProblem(`SLIPWAY_ACME_EMAIL is "${email}": it must be an address such as ann@example.com`);
  const trusted = environment.SLIPWAY_ACME_CERTIFICATES && path.resolve(folder, environment.SLIPWAY_ACME_CERTIFICATES);
  if (trusted) expectReadable(trusted);
  return {
    SLIPWAY_ACME_DIRECTORY: directory,
    ...(email ? { SLIPWAY_ACME_EMAIL: email } : {}),
    ...(trusted ? { SLIPWAY_ACME_CERTIFICATES: trusted } : {}),
  };
}

function expectReadable(file: string): void {
  try {
    readFileSync(file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new StartProblem(`SLIPWAY_ACME_CERTIFICATES is "${file}": it must be a readable file in PEM (${code})`);
  }
}

/** Parses a port, or an IP address with a port such as `[::1]:443`. */
function address(variable: string, text: string): string {
  const [, host = EVERYWHERE, digits] = /^(?:(.+):)?(\d{1,5})$/.exec(text) ?? [];
  const port = Number(digits);
  const isAddress = isIP(host.replace(/^\[(.+)\]$/, '$1')) !== 0;
  if (isAddress && port >= 1 && port <= 65_535) return `${host}:${port}`;
  throw new StartProblem(
    `${variable} is "${text}": it must be a port, such as 443, or an address with one, 0.0.0.0:443`,
  );
}
