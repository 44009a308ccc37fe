/** Rate limits of auth, whose amounts come from the project's settings. */

import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import { networkOf, type Rate, TokenBuckets } from '@slipway/program';
import type { ServiceRequest } from '../../service.js';
import type { Context } from '../context.js';
import { tooManyMessages, tooManyRequests, tooSoon } from '../errors.js';

const ATTEMPTS: Rate = { burst: 300, perSecond: 5 };

const evenly = (amount: number, seconds: number): Rate => ({ burst: amount, perSecond: amount / seconds });
const FIVE_MINUTES = 300;
const HOUR = 3600;

/** Limit of guesses at the codes of one user, from all addresses. With it, trying a million codes takes years. */
const CODE_GUESSES = evenly(20, HOUR);

const TEST_MAILS = evenly(20, HOUR);

type ByAddress = 'attempts' | 'verify' | 'otp' | 'anonymous';

export class Limits {
  /** Buckets by project, so that filling the memory of one evicts none of another. */
  readonly #buckets = new Map<string, TokenBuckets>();

  constructor(private readonly attempts: Rate = ATTEMPTS) {}

  /** Drops the limits of a deleted or restarted project. */
  forget(ref: string): void {
    this.#buckets.delete(ref);
  }

  /** Counts a request by the caller's network; throws if it exceeds the limit. */
  byAddress(what: ByAddress, { request, config }: Context): void {
    const network = networkOf(callerAddress(request, config.limits.addressHeader));
    this.#take(request, `${what} ${network}`, this.#ofAddress(what, config));
  }

  /** Counts a guess at a code. `subject` is the address, known or not. */
  codeGuess({ request }: Context, subject: string): void {
    this.#take(request, `code ${subject}`, CODE_GUESSES);
  }

  mfaGuess({ request, config }: Context, userId: string): void {
    this.#take(request, `mfa ${userId}`, evenly(config.mfa.attemptsPerMinute, 60));
  }

  /** Counts a mail to `address`, also without a user of that address, because the response must not reveal it. */
  email({ request, config }: Context, kind: string, address: string): void {
    const code = 'over_email_send_rate_limit';
    this.#space(request, `mail ${kind} ${address}`, config.mail.frequencySeconds, code);
    const wait = this.#wait(request, 'mails', evenly(config.limits.emailsPerHour, HOUR));
    if (wait > 0) throw tooManyMessages(code, 'email', wait);
  }

  testMail({ request }: Context): void {
    this.#take(request, 'test mail', TEST_MAILS);
  }

  sms({ request, config }: Context, kind: string, phone: string): void {
    const code = 'over_sms_send_rate_limit';
    this.#space(request, `sms ${kind} ${phone}`, config.sms.frequencySeconds, code);
    const wait = this.#wait(request, 'smses', evenly(config.limits.smsPerHour, HOUR));
    if (wait > 0) throw tooManyMessages(code, 'SMS', wait);
  }

  #ofAddress(what: ByAddress, { limits }: AuthConfig): Rate {
    if (what === 'verify') return evenly(limits.verifyPer5Minutes, FIVE_MINUTES);
    if (what === 'otp') return evenly(limits.otpPer5Minutes, FIVE_MINUTES);
    if (what === 'anonymous') return evenly(limits.anonymousPerHour, HOUR);
    return limits.tokenPer5Minutes === undefined ? this.attempts : evenly(limits.tokenPer5Minutes, FIVE_MINUTES);
  }

  /** Takes one token of the key's bucket. Returns 0, or the seconds until there is one. */
  #wait({ tenant: { ref } }: ServiceRequest, key: string, rate: Rate): number {
    const buckets = this.#buckets.get(ref) ?? new TokenBuckets(this.attempts);
    this.#buckets.set(ref, buckets);
    return Math.ceil(buckets.of(key, rate).take());
  }

  #take(request: ServiceRequest, key: string, rate: Rate): void {
    const wait = this.#wait(request, key, rate);
    if (wait > 0) throw tooManyRequests(wait);
  }

  #space(request: ServiceRequest, key: string, seconds: number, code: string): void {
    if (seconds <= 0) return;
    const wait = this.#wait(request, key, { burst: 1, perSecond: 1 / seconds });
    if (wait > 0) throw tooSoon(code, wait);
  }
}

/** Each proxy appends the address that it sees, so only the last entry can't be forged. */
function callerAddress({ incoming, address }: ServiceRequest, header: string | undefined): string {
  const value = header === undefined ? undefined : incoming.headers[header];
  const last = [value].flat().at(-1)?.split(',').at(-1)?.trim();
  return last || address;
}
