/**
 * Computes when the provider accepts the next request, from the headers of its responses. In: headers. Out: delays. The
 * provider's limit refills steadily, so that an exhausted one allows a request again long before its reset. Times of
 * the provider are compared with the `Date` of the same response, not with this machine's clock.
 */
export type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** A wait that a header names is at most this long. */
const LONGEST_MS = 60 * 60_000;

const single = (value: string | string[] | undefined) => (Array.isArray(value) ? value[0] : value);

function numberOf(headers: Headers, name: string): number | undefined {
  const text = single(headers[name]);
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Undefined: the header is missing or not valid. */
export function retryAfterOf(headers: Headers): number | undefined {
  const seconds = numberOf(headers, 'retry-after');
  if (seconds !== undefined) return Math.min(seconds * 1000, LONGEST_MS);
  const until = Date.parse(single(headers['retry-after']) ?? '') - Date.parse(single(headers.date) ?? '');
  return Number.isNaN(until) ? undefined : Math.min(Math.max(0, until), LONGEST_MS);
}

/** Returns the time in which the limit allows one more request. Undefined: the headers do not say it. */
function refillOf(headers: Headers): number | undefined {
  const limit = numberOf(headers, 'ratelimit-limit');
  const remaining = numberOf(headers, 'ratelimit-remaining');
  const reset = numberOf(headers, 'ratelimit-reset');
  const now = Date.parse(single(headers.date) ?? '');
  if (limit === undefined || remaining === undefined || reset === undefined || Number.isNaN(now)) return undefined;
  const untilFull = Math.min(Math.max(0, reset * 1000 - now), LONGEST_MS);
  return untilFull / Math.max(1, limit - remaining);
}

export class RequestPace {
  #notBefore = 0;

  /** Returns the milliseconds until the next request may be sent. */
  delayMs(): number {
    return Math.max(0, this.#notBefore - performance.now());
  }

  /** Reads a response. All requests wait if the provider rejected one, or will reject the next. */
  note(status: number, headers: Headers): void {
    const isExhausted = numberOf(headers, 'ratelimit-remaining') === 0;
    const wait = (status === 429 ? retryAfterOf(headers) : undefined) ?? (isExhausted ? refillOf(headers) : undefined);
    if (wait !== undefined) this.#notBefore = Math.max(this.#notBefore, performance.now() + wait);
  }
}
