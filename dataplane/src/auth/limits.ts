/** Rate limits of auth: each by its name, with the amount from the project's settings. */

import { networkOf } from '../network-address.js';
import type { ServiceRequest } from '../service.js';
import type { AuthConfig } from './config.js';
import type { Context } from './context.js';
import { tooManyMessages, tooManyRequests, tooSoon } from './errors.js';
import { type RateLimit, RateLimiter } from './rate-limit.js';

const ATTEMPTS: RateLimit = { burst: 300, perSecond: 5 };

const evenly = (amount: number, seconds: number): RateLimit => ({ burst: amount, perSecond: amount / seconds });
const FIVE_MINUTES = 300;
const HOUR = 3600;

/** Guesses at the codes of one user, from wherever they come: a million codes last for years of them. */
const CODE_GUESSES = evenly(20, HOUR);

type ByAddress = 'attempts' | 'verify' | 'otp' | 'anonymous';

export class Limits {
  /** One for each project: who fills the memory of one has no other's forgotten. */
  readonly #limiters = new Map<string, RateLimiter>();

  constructor(private readonly attempts: RateLimit = ATTEMPTS) {}

  /** The project is gone, or begins anew. */
  forget(ref: string): void {
    this.#limiters.delete(ref);
  }

  /** One of what a caller's network may do; throws when it did so too often. */
  byAddress(what: ByAddress, { request, config }: Context): void {
    const network = networkOf(callerAddress(request, config.limits.addressHeader));
    this.#take(request, `${what} ${network}`, this.#ofAddress(what, config));
  }

  /** `subject`: an address whose code somebody guesses, known here or not. */
  codeGuess({ request }: Context, subject: string): void {
    this.#take(request, `code ${subject}`, CODE_GUESSES);
  }

  mfaGuess({ request, config }: Context, userId: string): void {
    this.#take(request, `mfa ${userId}`, evenly(config.mfa.attemptsPerMinute, 60));
  }

  /** A mail to `address`, asked for whether or not there is a user: the answer must not tell. */
  email({ request, config }: Context, kind: string, address: string): void {
    const code = 'over_email_send_rate_limit';
    this.#space(request, `mail ${kind} ${address}`, config.mail.frequencySeconds, code);
    const wait = this.#of(request).take('mails', evenly(config.limits.emailsPerHour, HOUR));
    if (wait > 0) throw tooManyMessages(code, 'email', wait);
  }

  sms({ request, config }: Context, kind: string, phone: string): void {
    const code = 'over_sms_send_rate_limit';
    this.#space(request, `sms ${kind} ${phone}`, config.sms.frequencySeconds, code);
    const wait = this.#of(request).take('smses', evenly(config.limits.smsPerHour, HOUR));
    if (wait > 0) throw tooManyMessages(code, 'SMS', wait);
  }

  #ofAddress(what: ByAddress, { limits }: AuthConfig): RateLimit {
    if (what === 'verify') return evenly(limits.verifyPer5Minutes, FIVE_MINUTES);
    if (what === 'otp') return evenly(limits.otpPer5Minutes, FIVE_MINUTES);
    if (what === 'anonymous') return evenly(limits.anonymousPerHour, HOUR);
    return limits.tokenPer5Minutes === undefined ? this.attempts : evenly(limits.tokenPer5Minutes, FIVE_MINUTES);
  }

  #of({ tenant: { ref } }: ServiceRequest): RateLimiter {
    const known = this.#limiters.get(ref) ?? new RateLimiter();
    this.#limiters.set(ref, known);
    return known;
  }

  #take(request: ServiceRequest, key: string, limit: RateLimit): void {
    const wait = this.#of(request).take(key, limit);
    if (wait > 0) throw tooManyRequests(wait);
  }

  #space(request: ServiceRequest, key: string, seconds: number, code: string): void {
    if (seconds <= 0) return;
    const wait = this.#of(request).take(key, { burst: 1, perSecond: 1 / seconds });
    if (wait > 0) throw tooSoon(code, wait);
  }
}

/** Each proxy adds the address that it sees at the end: only the last is not the caller's own word. */
function callerAddress({ incoming, address }: ServiceRequest, header: string | undefined): string {
  const value = header === undefined ? undefined : incoming.headers[header];
  const last = [value].flat().at(-1)?.split(',').at(-1)?.trim();
  return last || address;
}
