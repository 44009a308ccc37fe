/**
 * The folder of certificates on one machine, which the operator writes and the data plane reads. Each certificate is
 * one file, so that a key never stands beside the chain of another one.
 *
 *     <host>.pem            the private key, then the chain
 *     challenges/<token>    the response to a challenge of the authority, as JSON
 *     state.json            orders and attempts
 *     account.key           the key of the account at the authority; no host of a handshake names this file
 */
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createSecureContext } from 'node:tls';
import { isDnsName, namesIn, parseJson, replaceFile, unlessMissing } from '@slipway/program';

/** The validity of a certificate, in milliseconds since 1970. */
export interface Validity {
  notBefore: number;
  notAfter: number;
}

/** The response to an http-01 challenge (RFC 8555, section 8.3), which is served at `host` alone. */
export interface Challenge {
  host: string;
  keyAuthorization: string;
}

const CERTIFICATE = '.pem';
/** Suffix of a certificate's file that `replaceFile` has not finished. */
const UNFINISHED = '.pem.new';
/** Matches the token of a challenge, which the authority chooses, in base64url (RFC 8555, section 8.1). */
const TOKEN = /^[\w-]{1,128}$/;
const CHALLENGE_BOUND = { bytes: 4_096, depth: 1, values: 8 };

/**
 * Returns the validity of a certificate. Throws if the PEM is not a key and a certificate of this key for `host`, or if
 * a server of TLS can't use it.
 */
export function usableValidity(pem: string, host: string): Validity {
  createSecureContext({ key: pem, cert: pem });
  return validityOf(pem, host);
}

function validityOf(pem: string, host: string): Validity {
  const certificate = new X509Certificate(pem);
  if (!certificate.checkPrivateKey(createPrivateKey(pem))) throw new Error('it has another key');
  if (certificate.checkHost(host) === undefined) throw new Error('it is for another host');
  return { notBefore: certificate.validFromDate.getTime(), notAfter: certificate.validToDate.getTime() };
}

export class CertificateFolder {
  readonly state: string;
  readonly accountKey: string;

  constructor(readonly folder: string) {
    this.state = path.join(folder, 'state.json');
    this.accountKey = path.join(folder, 'account.key');
  }

  async open(): Promise<void> {
    await mkdir(path.join(this.folder, 'challenges'), { recursive: true, mode: 0o700 });
  }

  /** Hosts that have a certificate. */
  async hosts(): Promise<string[]> {
    const names = await namesIn(this.folder);
    return names.filter((name) => name.endsWith(CERTIFICATE)).map((name) => name.slice(0, -CERTIFICATE.length));
  }

  /** Returns the key and the chain in PEM; undefined: there is no certificate. */
  async read(host: string): Promise<string | undefined> {
    return readFile(this.#certificate(host), 'utf8').catch(unlessMissing);
  }

  /** Returns the time of the last write in milliseconds; undefined: there is no certificate. */
  async writtenAt(host: string): Promise<number | undefined> {
    return (await stat(this.#certificate(host)).catch(unlessMissing))?.mtimeMs;
  }

  /** Returns undefined if there is no certificate, or a damaged one. */
  async validity(host: string): Promise<Validity | undefined> {
    try {
      return validityOf((await this.read(host)) ?? '', host);
    } catch {
      return undefined;
    }
  }

  /** `pem`: the key and the chain. */
  write(host: string, pem: string): Promise<void> {
    return replaceFile(this.#certificate(host), pem);
  }

  remove(host: string): Promise<void> {
    return rm(this.#certificate(host), { force: true });
  }

  async putChallenge(token: string, challenge: Challenge): Promise<void> {
    await writeFile(this.#challenge(token), JSON.stringify(challenge), { mode: 0o600 });
  }

  removeChallenge(token: string): Promise<void> {
    return rm(this.#challenge(token), { force: true });
  }

  /** Removes what orders and writes left that ended with their program: challenges, and keys of no certificate. */
  async removeUnfinished(): Promise<void> {
    for (const token of await namesIn(path.join(this.folder, 'challenges'))) await this.removeChallenge(token);
    for (const name of await namesIn(this.folder)) {
      if (name.endsWith(UNFINISHED)) await rm(path.join(this.folder, name), { force: true });
    }
  }

  /** Returns undefined if no order waits for this token at this host. */
  async challengeOf(token: string, host: string): Promise<string | undefined> {
    if (!TOKEN.test(token)) return undefined;
    const text = await readFile(this.#challenge(token), 'utf8').catch(unlessMissing);
    if (text === undefined) return undefined;
    const challenge = parseJson(text, CHALLENGE_BOUND) as Challenge;
    return challenge.host === host ? challenge.keyAuthorization : undefined;
  }

  #certificate(host: string): string {
    if (!isDnsName(host)) throw new Error(`${JSON.stringify(host.slice(0, 300))} is not a host name`);
    return path.join(this.folder, `${host}${CERTIFICATE}`);
  }

  #challenge(token: string): string {
    if (!TOKEN.test(token)) throw new Error('the token of a challenge is not base64url');
    return path.join(this.folder, 'challenges', token);
  }
}
