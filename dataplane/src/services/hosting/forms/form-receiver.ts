/**
 * Receives forms of sites. In: a POST to `/forms/<name>`. Out: an entry at the API, and a response to the visitor. A
 * flagged entry gets the same response as any other, so that its sender learns nothing.
 */
import { ConcurrencyLimitReached, LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import { BodyTooLargeError, receiveBody } from '../../../http/request-body.js';
import { answerForm, type FormAnswer, nextPath, redirectForm, unavailable, wantsJson } from '../../form-answers.js';
import { formNameOf } from '../../form-path.js';
import type { FormRequest } from '../../service.js';
import { type EntryPlace, EntryStore, type NewEntry } from './entry-store.js';
import { type Field, FORM_BYTES, FormRefusal, fieldsOf } from './form-fields.js';
import { FormLimits } from './form-limits.js';

/** Fields that people do not see, so that only programs fill them in. */
const HONEYPOTS = new Set(['_gotcha', 'bot-field']);
const NEXT = '_next';

const RECEIVED: FormAnswer = { status: 200, title: 'Thank you', text: 'The form was received.' };
const NO_FORM: FormAnswer = { status: 404, title: 'Not found', text: 'There is no form at this address.' };
const TOO_LARGE: FormAnswer = {
  status: 413,
  title: 'The form is too large',
  text: `A form has at most ${FORM_BYTES / 1024} KiB.`,
  headers: { Connection: 'close' },
};
const ENCODED: FormAnswer = {
  status: 415,
  title: 'The form is not valid',
  text: 'Send the form without a Content-Encoding.',
};
const NO_FIELDS: FormAnswer = { status: 400, title: 'The form is not valid', text: 'The form has no fields.' };
const FULL: FormAnswer = {
  status: 507,
  title: 'The form was not received',
  text: "This site has no room for another entry: the site's owner must delete entries. Nothing was stored.",
};
const tooMany = (seconds: number): FormAnswer => ({
  status: 429,
  title: 'Too many forms',
  text: 'Too many forms were sent to this site. Nothing was stored; try again later.',
  headers: { 'Retry-After': String(Math.max(1, Math.ceil(seconds))) },
});

export class FormReceiver {
  readonly #limits = new FormLimits();
  readonly #store: EntryStore;
  readonly #failures: LogThrottle;

  constructor(
    place: EntryPlace,
    private readonly log: Logger,
  ) {
    this.#store = new EntryStore(place);
    this.#failures = new LogThrottle((leftOut, ref) => log.error({ ref, leftOut }, 'more forms not stored'));
  }

  close(): void {
    this.#failures.close();
  }

  async receive(request: FormRequest): Promise<void> {
    const { incoming, outgoing } = request;
    const answer = await this.#answerTo(request);
    if (typeof answer === 'string') redirectForm(outgoing, answer);
    else answerForm(incoming, outgoing, answer);
  }

  /** Returns an answer, or the path to which the visitor is led. */
  async #answerTo(request: FormRequest): Promise<FormAnswer | string> {
    const { ref, target, address, incoming } = request;
    if (Number(incoming.headers['content-length']) > FORM_BYTES) return TOO_LARGE;
    const form = formNameOf(target);
    if (form === undefined) return NO_FORM;
    const wait = this.#limits.wait(ref, address);
    if (wait > 0) return tooMany(wait);
    if (incoming.headers['content-encoding'] !== undefined) return ENCODED;
    try {
      const body = await receiveBody(incoming, FORM_BYTES);
      const all = await fieldsOf(incoming.headers['content-type'] ?? '', body);
      const fields = all.filter(([name]) => name !== NEXT && !HONEYPOTS.has(name));
      if (fields.length === 0) return NO_FIELDS;
      const refusal = await this.#add(request, { ref, form, fields, flagged: this.#flagOf(request, all) });
      return refusal ?? received(request, all);
    } catch (error) {
      if (error instanceof BodyTooLargeError) return TOO_LARGE;
      if (!(error instanceof FormRefusal)) throw error;
      const { status, message, field } = error;
      return { status, title: 'The form is not valid', text: message, field };
    }
  }

  #flagOf({ ref, address }: FormRequest, fields: readonly Field[]): NewEntry['flagged'] {
    if (fields.some(([name, value]) => HONEYPOTS.has(name) && value !== '')) return 'honeypot';
    return this.#limits.isFlagged(ref, address) ? 'rate_limit' : null;
  }

  /** Returns undefined once the entry is stored. */
  async #add({ ref, requestId }: FormRequest, entry: NewEntry): Promise<FormAnswer | undefined> {
    try {
      const outcome = await this.#store.add(entry);
      if (outcome === 'full') return FULL;
      return outcome === 'unknown' ? NO_FORM : undefined;
    } catch (error) {
      if (error instanceof ConcurrencyLimitReached) return unavailable(1);
      if (this.#failures.take(ref)) this.log.error({ err: error, ref, requestId }, 'form not stored');
      return unavailable(5);
    }
  }
}

function received({ incoming, siteUrl }: FormRequest, fields: readonly Field[]): FormAnswer | string {
  if (wantsJson(incoming)) return RECEIVED;
  const next = fields.find(([name]) => name === NEXT)?.[1];
  return nextPath(next, siteUrl) ?? RECEIVED;
}
