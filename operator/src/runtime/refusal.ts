/**
 * Recognizes requests that the API server rejects until somebody changes something. In: the error of a request. Out:
 * reason and message, or undefined if a retry may succeed. For a rejected Secret the message names only the rejecting
 * party, because a webhook may quote the Secret's content.
 */
import { KubeError } from '@slipway/kubernetes';

export interface Refusal {
  reason: string;
  words: string;
}

/** Statuses of such rejections. 403: forbidden, by a quota, admission or missing rights. 422: invalid. */
const STATUSES = new Set([403, 422]);
/** Matches the message of a webhook that rejects without a code, which has status 400. */
const DENIED_BY_WEBHOOK = /^admission webhook "[a-z0-9.-]+" denied the request/;
const QUOTE_LENGTH = 300;
const NAMED_SECRET = /^secrets? "[a-z0-9.-]+" is (?:invalid|forbidden)/i;
const WHO_REFUSED = [
  /field is immutable when `immutable` is set/,
  /exceeded quota: [a-z0-9.-]+/,
  /admission webhook "[a-z0-9.-]+" denied the request/,
  /ValidatingAdmissionPolicy '[a-z0-9.-]+' with binding '[a-z0-9.-]+' denied request/,
  /User "[\w.:@-]+" cannot [a-z]+ resource "[a-z./]+"/,
];

export function refusalOf(error: unknown): Refusal | undefined {
  if (!(error instanceof KubeError)) return undefined;
  const { message, resource } = error;
  if (!STATUSES.has(error.status) && !(error.status === 400 && DENIED_BY_WEBHOOK.test(message))) return undefined;
  if (/being terminated/.test(message)) return undefined;
  const reason = /exceeded quota/.test(message) ? 'QuotaExceeded' : reasonOf(error);
  return { reason, words: resource === 'secrets' ? whoRefused(error) : message.slice(0, QUOTE_LENGTH) };
}

/** Returns the refusal as an outcome, with `what` before the message. Rethrows any other error, for a retry. */
export function refusedOutcome(error: unknown, what: string) {
  const refusal = refusalOf(error);
  if (!refusal) throw error;
  return { state: 'failed', reason: refusal.reason, message: `${what}: ${refusal.words}`, retry: true } as const;
}

/** Returns a reason in CamelCase. A webhook may put any text into the reason, also the Secret's content. */
const reasonOf = ({ reason, status }: KubeError) =>
  /^[A-Z][A-Za-z]{1,63}$/.test(reason) ? reason : status === 422 ? 'Invalid' : 'Forbidden';

function whoRefused(error: KubeError): string {
  const { message } = error;
  const who = WHO_REFUSED.map((words) => words.exec(message)?.[0]).find((words) => words !== undefined);
  const parts = [NAMED_SECRET.exec(message)?.[0], who].filter((words) => words !== undefined);
  return parts.length > 0 ? parts.join(': ') : reasonOf(error);
}
