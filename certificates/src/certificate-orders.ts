/**
 * Orders certificates for the hosts of an installation, one at a time, and renews them. In: the hosts, and a
 * certificate authority. Out: files in the folder of certificates, and the progress of each host's certificate. An
 * order is recorded before it is placed, so that restarts do not exceed the limits of a day.
 */
import { readFile } from 'node:fs/promises';
import { parseJson, replaceFile, unlessMissing } from '@slipway/program';
import type { Logger } from 'pino';
import { type Authority, AuthorityProblem } from './authority.js';
import { type CertificateFolder, usableValidity, type Validity } from './folder.js';
import {
  type Attempts,
  failedAgain,
  isAhead,
  MOST_WAIT_MS,
  nextOrder,
  ofLastDay,
  type PlacedOrder,
  renewalAt,
  type WantedHost,
} from './order-plan.js';

export interface CertificateOrdersOptions {
  folder: CertificateFolder;
  authority: Authority;
  /** Returns the hosts that need a certificate; the first ones are ordered first. Each one is certifiable. */
  wanted(): readonly WantedHost[];
  /** Called when the state of a host's certificate changed. */
  onChange(host: string): void;
  log: Logger;
  now?: () => number;
}

/** `problem`: why the last order failed. `nextAt`: when the next one is placed, in milliseconds since 1970. */
export type CertificateState =
  | { state: 'issued'; notAfter: number }
  | { state: 'waiting'; until?: number; problem?: string }
  | { state: 'failed'; problem: string; nextAt: number; notAfter: number | undefined };

interface Pause {
  until: number;
  problem: string;
  /** No response came: nobody knows for how long. */
  isUnreached?: boolean;
}

interface Recorded {
  placed: PlacedOrder[];
  attempts: Record<string, Attempts>;
  paused?: Pause;
}

/** Maximum characters of the authority's own text that are shown. */
const MOST_PROBLEM = 300;
/** Minimum milliseconds of a pause after a rate limit, for a limit that ends at once according to the authority. */
const LEAST_PAUSE_MS = 10_000;
/**
 * Maximum milliseconds of a pause of all orders. A longer rate limit may apply to the host alone: Let's Encrypt issues
 * five certificates in a week for the same host. So only this host waits longer.
 */
const MOST_PAUSE_MS = 60 * 60_000;
/** Milliseconds of a pause of all orders after an order that did not reach the authority. */
const UNREACHED_PAUSE_MS = 60_000;
/**
 * Limits of the record of orders. Each host has some 200 bytes of attempts, and a machine has up to 10,000 projects.
 */
const STATE_BOUND = { bytes: 8 * 2 ** 20, depth: 4, values: 200_000 };

export class CertificateOrders {
  readonly #options: Required<CertificateOrdersOptions>;
  readonly #validities = new Map<string, Validity>();
  /** Hosts that have a file, also a damaged one. */
  readonly #files = new Set<string>();
  #recorded: Recorded = { placed: [], attempts: {} };
  #isOpen = false;
  #isClosed = false;

  constructor(options: CertificateOrdersOptions) {
    this.#options = { now: Date.now, ...options };
  }

  /** Removes the certificates of hosts that are gone, and places at most one order. Never called twice at once. */
  async look(): Promise<void> {
    const { now } = this.#options;
    if (!this.#isOpen) await this.#open();
    if (this.#isClosed) return;
    const wanted = this.#options.wanted();
    await this.#forgetOthers(new Set(wanted.map(({ host }) => host)));
    if (this.#paused()) return;
    const next = nextOrder(wanted, this.#known(), now());
    if (next) await this.#order(next);
  }

  /** An order that ends after this is no refusal: its program ends. */
  close(): void {
    this.#isClosed = true;
  }

  /** Undefined before the first look. */
  stateOf(host: string): CertificateState | undefined {
    if (!this.#isOpen) return undefined;
    const paused = this.#paused();
    const validity = this.#validities.get(host);
    const attempt = this.#recorded.attempts[host];
    const isDue = validity === undefined || renewalAt(validity) <= this.#options.now();
    if (attempt && isDue) return { state: 'failed', ...attempt, notAfter: validity?.notAfter };
    if (validity) return { state: 'issued', notAfter: validity.notAfter };
    if (paused === undefined) return { state: 'waiting' };
    const { until, problem, isUnreached } = paused;
    // A time that moves with each attempt would change the status of each project that waits.
    return { state: 'waiting', problem, ...(isUnreached ? {} : { until }) };
  }

  #paused(): Pause | undefined {
    const { paused } = this.#recorded;
    return paused && isAhead(paused.until, this.#options.now(), MOST_PAUSE_MS) ? paused : undefined;
  }

  #known() {
    const { placed, attempts } = this.#recorded;
    return {
      validity: (host: string) => this.#validities.get(host),
      attempts: (host: string) => attempts[host],
      placed,
    };
  }

  async #open(): Promise<void> {
    const { folder } = this.#options;
    await folder.open();
    await folder.removeUnfinished();
    const text = await readFile(folder.state, 'utf8').catch(unlessMissing);
    if (text !== undefined) this.#recorded = recordedIn(text);
    for (const host of await folder.hosts()) {
      this.#files.add(host);
      const validity = await folder.validity(host);
      if (validity) this.#validities.set(host, validity);
    }
    this.#isOpen = true;
  }

  async #order({ host, account }: WantedHost): Promise<void> {
    const { folder, authority, log, now, onChange } = this.#options;
    const renewal = this.#validities.has(host);
    await this.#place({ at: now(), renewal, ...(account === undefined ? {} : { account }) });
    try {
      const pem = await authority.issue(host, {
        put: (token, keyAuthorization) => folder.putChallenge(token, { host, keyAuthorization }),
        withdraw: (token) => folder.removeChallenge(token),
      });
      const validity = issuedValidity(pem, host);
      this.#files.add(host);
      await folder.write(host, pem);
      this.#validities.set(host, validity);
      const end = new Date(validity.notAfter).toISOString();
      // Otherwise the next look would order it again.
      const problem = `its certificate ends at ${end}, which is too soon by the clock of this machine`;
      const isDue = renewalAt(validity) <= now();
      await this.#settle(host, isDue ? failedAgain(this.#recorded.attempts[host], problem, now()) : undefined);
      log.info({ host, notAfter: end }, 'certificate issued');
    } catch (error) {
      if (!this.#isClosed) await this.#fail(host, error as Error);
    } finally {
      onChange(host);
    }
  }

  /** Records an order before it is placed. An order that cannot be recorded is not placed, and does not count. */
  async #place(order: PlacedOrder): Promise<void> {
    const before = this.#recorded;
    try {
      await this.#record({ placed: [...before.placed, order] });
    } catch (error) {
      this.#recorded = before;
      throw error;
    }
  }

  async #fail(host: string, error: Error): Promise<void> {
    const { log, now } = this.#options;
    const problem = shown(error.message);
    log.warn({ host, problem }, 'certificate order failed');
    const { placed, attempts } = this.#recorded;
    const { retryAfterMs, isUnreached } = error instanceof AuthorityProblem ? error : {};
    const failed = failedAgain(attempts[host], problem, now());
    if (isUnreached) {
      const paused = { until: now() + UNREACHED_PAUSE_MS, problem, isUnreached };
      await this.#record({ placed: placed.slice(0, -1), paused });
    } else if (retryAfterMs === undefined) {
      await this.#settle(host, failed);
    } else {
      const paused = { until: now() + between(LEAST_PAUSE_MS, retryAfterMs, MOST_PAUSE_MS), problem };
      const nextAt = now() + Math.min(retryAfterMs, MOST_WAIT_MS);
      const isLong = retryAfterMs > MOST_PAUSE_MS;
      await this.#record({ paused, ...(isLong && { attempts: { ...attempts, [host]: { ...failed, nextAt } } }) });
    }
  }

  /** `attempt`: undefined after a success. */
  async #settle(host: string, attempt: Attempts | undefined): Promise<void> {
    const { [host]: _, ...others } = this.#recorded.attempts;
    await this.#record({ attempts: attempt ? { ...others, [host]: attempt } : others });
  }

  async #record(change: Partial<Recorded>): Promise<void> {
    const { folder, now } = this.#options;
    const { paused, ...recorded } = { ...this.#recorded, ...change };
    const placed = ofLastDay(recorded.placed, now());
    this.#recorded = { ...recorded, placed, ...(paused && paused.until > now() ? { paused } : {}) };
    await replaceFile(folder.state, JSON.stringify(this.#recorded));
  }

  async #forgetOthers(wanted: ReadonlySet<string>): Promise<void> {
    for (const host of [...this.#files].filter((each) => !wanted.has(each))) {
      await this.#options.folder.remove(host);
      this.#validities.delete(host);
      this.#files.delete(host);
    }
    // Before its time, a host that comes back waits for it as before.
    const now = this.#options.now();
    const all = Object.entries(this.#recorded.attempts);
    const others = all.filter(([host, { nextAt }]) => wanted.has(host) || isAhead(nextAt, now, MOST_WAIT_MS));
    if (others.length < all.length) await this.#record({ attempts: Object.fromEntries(others) });
  }
}

/** Returns the authority's text without the control characters that could change what a terminal shows. */
function shown(text: string): string {
  const plain = text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim();
  // A cut may leave half of a character.
  return plain.slice(0, MOST_PROBLEM).replace(/[\ud800-\udbff]$/, '');
}

function issuedValidity(pem: string, host: string): Validity {
  try {
    return usableValidity(pem, host);
  } catch (error) {
    throw new Error(`the authority issued no usable certificate (${(error as Error).message})`);
  }
}

const between = (least: number, value: number, most: number) => Math.min(Math.max(value, least), most);

/** A damaged record, or part of one, is an empty one: the authority's own limits still hold. */
function recordedIn(text: string): Recorded {
  const { placed, attempts, paused } = parsedObject(text) as Partial<Recorded>;
  const isAttempts = ({ failures, nextAt, problem }: Attempts) =>
    Number.isInteger(failures) && isTime(nextAt) && typeof problem === 'string';
  return {
    placed: Array.isArray(placed) ? placed.filter((order) => isTime(order?.at)) : [],
    attempts: Object.fromEntries(Object.entries(attempts ?? {}).filter(([, each]) => each && isAttempts(each))),
    ...(paused && isTime(paused.until) && typeof paused.problem === 'string' ? { paused } : {}),
  };
}

function parsedObject(text: string): object {
  try {
    return Object(parseJson(text, STATE_BOUND));
  } catch {
    return {};
  }
}

/** Milliseconds since 1970 that a Date can have. */
const isTime = (value: unknown): value is number => typeof value === 'number' && Math.abs(value) <= 8.64e15;
