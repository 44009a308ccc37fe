/**
 * Reads the certificate for a TLS handshake. In: the server name that the client sends. Out: a TLS context, or
 * undefined for a host without a certificate. A renewed certificate is used within CHECK_MS. The number of contexts is
 * limited.
 */
import { createSecureContext, type SecureContext } from 'node:tls';
import { isDnsName } from '@slipway/program';
import type { CertificateFolder } from './folder.js';

const CHECK_MS = 10_000;
/** Maximum number of TLS contexts. Each takes some 40 KB. */
const MOST_CONTEXTS = 1_024;

export interface SecureContextsOptions {
  folder: CertificateFolder;
  /** Called for a file that cannot be used: at most once in CHECK_MS for a host. */
  onProblem(host: string, error: Error): void;
  now?: () => number;
}

interface Entry {
  /** Undefined: the file cannot be used. */
  context: SecureContext | undefined;
  writtenAt: number | undefined;
  checkedAt: number;
}

export class SecureContexts {
  readonly #options: Required<SecureContextsOptions>;
  /** The least recently used one first. */
  readonly #entries = new Map<string, Entry>();
  /** Handshakes for one host share one look at its file. */
  readonly #looks = new Map<string, Promise<SecureContext | undefined>>();

  constructor(options: SecureContextsOptions) {
    this.#options = { now: () => performance.now(), ...options };
  }

  async find(serverName: string): Promise<SecureContext | undefined> {
    const host = serverName.toLowerCase();
    if (!isDnsName(host)) return undefined;
    const entry = this.#entries.get(host);
    if (entry && this.#options.now() - entry.checkedAt < CHECK_MS) return this.#use(host, entry);
    let look = this.#looks.get(host);
    if (look === undefined) {
      look = this.#look(host, entry).finally(() => this.#looks.delete(host));
      this.#looks.set(host, look);
    }
    return look;
  }

  /** If the file cannot be used, the former certificate is. */
  async #look(host: string, former: Entry | undefined): Promise<SecureContext | undefined> {
    const { folder, now, onProblem } = this.#options;
    const checkedAt = now();
    try {
      const writtenAt = await folder.writtenAt(host);
      // A name that has no certificate takes no place: anybody may send any name.
      if (writtenAt === undefined) {
        this.#entries.delete(host);
        return undefined;
      }
      // A file that is replaced after its time was read is read once more at the next check.
      const pem = writtenAt === former?.writtenAt ? undefined : await folder.read(host);
      const context = pem === undefined ? former?.context : createSecureContext({ key: pem, cert: pem });
      return this.#use(host, { context, writtenAt, checkedAt });
    } catch (error) {
      onProblem(host, error as Error);
      return this.#use(host, { context: former?.context, writtenAt: former?.writtenAt, checkedAt });
    }
  }

  #use(host: string, entry: Entry): SecureContext | undefined {
    this.#entries.delete(host);
    this.#entries.set(host, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > MOST_CONTEXTS && oldest !== undefined) this.#entries.delete(oldest);
    return entry.context;
  }
}
