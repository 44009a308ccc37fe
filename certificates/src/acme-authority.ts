/**
 * A certificate authority that speaks ACME (RFC 8555), such as Let's Encrypt. It proves each host by http-01. In: the
 * URL of the authority's directory. Out: certificates, or the authority's own reason for a rejection. By setting that
 * URL, the administrator accepts the authority's terms of service.
 */
import { createPrivateKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { rootCertificates } from 'node:tls';
import { readBounded, replaceFile, unlessMissing } from '@slipway/program';
import { axios, Client, crypto } from 'acme-client';
import { Agent, request } from 'undici';
import { type AcmeSettings, type Authority, AuthorityProblem, type ChallengeResponder } from './authority.js';
import type { CertificateFolder } from './folder.js';

const TIMEOUT_MS = 30_000;
const RESPONSE_BYTES = 256 * 1024;
/** Maximum number of requests for one order. The authority's responses decide the number, which is some 30. */
const MOST_REQUESTS = 200;
/** Timeout in milliseconds of a whole order, even if each response arrives slowly. */
const ORDER_MS = 10 * 60_000;
/**
 * Number of checks of an order, and the milliseconds between them. An order that is not settled within some 90 s has
 * failed.
 */
const LOOKS = { backoffAttempts: 10, backoffMin: 1_000, backoffMax: 10_000 };
/** Milliseconds of a pause after a rate limit for which the authority names no duration. */
const PAUSE_MS = 60 * 60_000;
const TOO_MANY_REQUESTS = 429;

export interface AcmeAuthorityOptions {
  /** Replaces the default timeout of an order, in milliseconds. */
  orderMs?: number | undefined;
}

interface OrderUnderWay {
  requests: number;
  responses: number;
  /** Set by a response that limits the rate of requests. */
  retryAfterMs: number | undefined;
  /** Set by a connection that failed. */
  isUnreachable: boolean;
  /** Ends all requests when the time for the order is over. */
  signal: AbortSignal;
}

export class AcmeAuthority implements Authority {
  readonly #settings: AcmeSettings;
  readonly #accountFile: string;
  readonly #orderMs: number;
  readonly #agent: Agent;
  #client: Client | undefined;
  /** One order is under way at a time. */
  #order: OrderUnderWay;

  /** `folder` has the file with the key of the account. */
  constructor(settings: AcmeSettings, folder: CertificateFolder, { orderMs = ORDER_MS }: AcmeAuthorityOptions = {}) {
    this.#settings = settings;
    this.#accountFile = folder.accountKey;
    this.#orderMs = orderMs;
    this.#order = this.#begun();
    const { trusted } = settings;
    this.#agent = new Agent({
      connections: 2,
      headersTimeout: TIMEOUT_MS,
      bodyTimeout: TIMEOUT_MS,
      connect: trusted === undefined ? {} : { ca: [...rootCertificates, trusted] },
    });
    // The library's own adapter waits as long as an authority's Retry-After says, and reads responses of any size.
    axios.defaults.adapter = (config) => this.#send(config);
  }

  async issue(host: string, challenges: ChallengeResponder): Promise<string> {
    const order = this.#begun();
    this.#order = order;
    try {
      const client = await this.#connected();
      const [key, csr] = await crypto.createCsr({ altNames: [host] }, await crypto.createPrivateEcdsaKey('P-256'));
      const chain = await client.auto({
        csr,
        termsOfServiceAgreed: true,
        ...(this.#settings.email === undefined ? {} : { email: this.#settings.email }),
        challengePriority: ['http-01'],
        // A machine behind a router may not reach its own public address.
        skipChallengeVerification: true,
        challengeCreateFn: async (_, { type, token }, keyAuthorization) => {
          if (type !== 'http-01') throw new Error('the authority offers no http-01 challenge');
          await challenges.put(token, keyAuthorization);
        },
        challengeRemoveFn: (_, { token }) => challenges.withdraw(token),
      });
      return `${key}\n${chain}`;
    } catch (error) {
      // Made again: the authority may have other URLs, or no longer know the account.
      this.#client = undefined;
      const reason = order.signal.aborted ? 'the authority did not end the order in time' : (error as Error).message;
      const isUnreached = order.isUnreachable && order.responses === 0;
      throw new AuthorityProblem(reason || 'the authority gave no reason', order.retryAfterMs, isUnreached);
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  #begun(): OrderUnderWay {
    const signal = AbortSignal.timeout(this.#orderMs);
    return { requests: 0, responses: 0, retryAfterMs: undefined, isUnreachable: false, signal };
  }

  async #connected(): Promise<Client> {
    this.#client ??= new Client({
      directoryUrl: this.#settings.directory,
      accountKey: await this.#accountKey(),
      ...LOOKS,
    });
    return this.#client;
  }

  /** The key is the account: an order with a key that the authority knows creates no second account. */
  async #accountKey(): Promise<string> {
    const kept = await readFile(this.#accountFile, 'utf8').catch(unlessMissing);
    if (kept) return readableKey(kept);
    const made = (await crypto.createPrivateEcdsaKey('P-256')).toString();
    await replaceFile(this.#accountFile, made);
    return made;
  }

  /** Sends a request of the library, once. */
  async #send(config: { url?: string; method?: string; data?: unknown; headers: unknown }) {
    const { url = '', method = 'get' } = config;
    const order = this.#order;
    const at = secureUrl(url);
    if (++order.requests > MOST_REQUESTS) throw new Error('the authority asks for too many requests');
    const sent = await request(at, {
      method: method.toUpperCase() as 'GET',
      headers: sentHeaders(config.headers),
      ...(typeof config.data === 'string' ? { body: config.data } : {}),
      dispatcher: this.#agent,
      signal: order.signal,
    }).catch((error: NodeJS.ErrnoException) => {
      order.isUnreachable = true;
      throw new Error(`the authority at ${at.host} cannot be reached (${error.code ?? error.message})`);
    });
    order.responses++;
    const data = (await readBounded(sent.body, RESPONSE_BYTES)).toString('utf8');
    if (sent.statusCode === TOO_MANY_REQUESTS) order.retryAfterMs = retryAfterOf(sent.headers['retry-after']);
    return { data, status: sent.statusCode, statusText: '', headers: sent.headers, config } as never;
  }
}

/** Returns a URL that the authority named. RFC 8555 (section 6.1) allows no scheme but HTTPS. */
function secureUrl(text: string): URL {
  const url = URL.parse(text);
  if (url?.protocol !== 'https:') throw new Error('the authority named a URL that is not one of HTTPS');
  return url;
}

function readableKey(pem: string): string {
  try {
    createPrivateKey(pem);
    return pem;
  } catch {
    throw new Error('the key of the account at the authority is damaged: restore the file account.key, or remove it');
  }
}

const sentHeaders = (headers: unknown): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers as Record<string, unknown>).flatMap(([name, value]) =>
      value === undefined || value === null ? [] : [[name, String(value)]],
    ),
  );

/** Returns the milliseconds of a Retry-After header, which has seconds or a date (RFC 9110, section 10.2.3). */
function retryAfterOf(header: string | string[] | undefined): number {
  const text = String(header ?? '');
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - Date.now();
  return ms > 0 ? ms : PAUSE_MS;
}
