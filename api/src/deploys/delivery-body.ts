/**
 * Reads the body of a deploy: empty, JSON, or a form whose field `payload` is JSON, the default of GitHub's webhooks.
 * In: a body, its sender, and the forms that the route accepts. Out: an object with unchecked members, or a 400, 413,
 * 415 or 503.
 */
import { Injectable } from '@nestjs/common';
import { ConcurrencyLimit, type JsonBound, JsonRefusal, parseJsonInTurns, runInTurns } from '@slipway/program';
import { Problem, retryLater } from '../http/problem.js';
import { bodyTooLarge, type UnreadBody } from '../http/raw-body.js';
import { formField } from './form-field.js';

/** Limits of a delivery's body: GitHub sends at most 25 MiB. */
export const MOST_OF_DELIVERY: JsonBound = { bytes: 25 * 1024 * 1024, depth: 100, values: 300_000 };
/** Maximum bytes of a small body. Small bodies are read at once, like the bodies of other routes. */
const SMALL_BYTES = 1024 * 1024;
/**
 * Maximum number of large bodies in memory, for all senders and for one, and of waiting ones. Of a waiting body, only
 * the first SMALL_BYTES are read.
 */
const LARGE_BODIES = { most: 2, ofOne: 1, waiting: 64, waitingOfOne: 4 };
/**
 * Milliseconds in which the rest of a large body must arrive, because other bodies wait for its place. The largest body
 * needs 10 Mbit/s.
 */
const LARGE_MS = 20_000;

const JSON_FORM = 'application/json';
const URL_ENCODED = 'application/x-www-form-urlencoded';

/** The bodies that a route accepts. */
export interface BodyForms {
  contentTypes: string[];
  /** True if a request without a body may have any content type, or none. */
  isOptional: boolean;
  /** Describes the accepted bodies for people. */
  words: string;
}

export const JSON_OR_FORM: BodyForms = {
  contentTypes: [JSON_FORM, URL_ENCODED],
  isOptional: true,
  words: `${JSON_FORM}, ${URL_ENCODED} with the field payload, or an empty body`,
};
export const ONLY_JSON: BodyForms = { contentTypes: [JSON_FORM], isOptional: false, words: JSON_FORM };

/** The members of a JSON object. */
export type Payload = Record<string, unknown>;

/** `proven`: the headers of the request authenticate the sender. Other senders share places of their own. */
export type Sender = { proven: boolean; name: string };

@Injectable()
export class DeliveryBodies {
  private readonly proven = largeBodies();
  private readonly unproven = largeBodies();

  /** `admit` gets the raw body before it is decoded. An empty body has no payload. */
  async read<T>(
    body: UnreadBody,
    sender: Sender,
    admit: (bytes: Buffer) => Promise<T>,
    forms: BodyForms,
  ): Promise<{ admitted: T; payload: Payload | undefined }> {
    const { bytes } = body;
    if (bytes !== undefined && bytes > MOST_OF_DELIVERY.bytes) throw bodyTooLarge(MOST_OF_DELIVERY.bytes);
    const work = async (milliseconds?: number) => {
      const raw = await body.read(MOST_OF_DELIVERY.bytes, milliseconds);
      return { admitted: await admit(raw), payload: await decode(raw, body.contentType, forms) };
    };
    const isSmall = bytes === undefined ? await body.readUpTo(SMALL_BYTES) : bytes <= SMALL_BYTES;
    if (isSmall) return work();
    return (sender.proven ? this.proven : this.unproven).run(sender.name, () => work(LARGE_MS), body.signal);
  }
}

const largeBodies = () =>
  new ConcurrencyLimit(LARGE_BODIES, () =>
    retryLater('unavailable', 'Too many large bodies are read at the same time. Send it again.', 5),
  );

async function decode(
  bytes: Buffer,
  contentType: string | undefined,
  { contentTypes, isOptional, words }: BodyForms,
): Promise<Payload | undefined> {
  const isAccepted = contentType !== undefined && contentTypes.includes(contentType);
  if (!isAccepted && (bytes.length > 0 || !isOptional)) throw unsupported(contentType, words);
  if (bytes.length === 0) return undefined;
  const json = await jsonOf(bytes, contentType);
  const payload = await parseJsonInTurns(json, MOST_OF_DELIVERY).catch((error: unknown) => {
    throw error instanceof JsonRefusal ? refusalOf(error) : error;
  });
  if (typeof payload === 'object' && payload !== null && !Array.isArray(payload)) return payload as Payload;
  throw new Problem(
    'malformed_json',
    'The body is JSON, but no object. Send an object, such as a push event, or nothing.',
  );
}

async function jsonOf(bytes: Buffer, contentType: string | undefined): Promise<Buffer> {
  if (contentType !== URL_ENCODED) return bytes;
  const payload = await runInTurns(formField(bytes, 'payload'));
  if (payload) return payload;
  throw new Problem('bad_request', 'payload: the form has no field of this name. Send the event as JSON in it.');
}

function refusalOf({ reason, message }: JsonRefusal): Problem {
  if (reason === 'syntax') return new Problem('malformed_json', 'The body, or its field payload, is not valid JSON.');
  return new Problem('body_too_large', `The body can't be decoded: ${message}.`);
}

function unsupported(contentType: string | undefined, words: string): Problem {
  const given = contentType === undefined ? 'The body has no content-type.' : 'This content-type is not read here.';
  return new Problem('unsupported_media_type', `${given} Send ${words}.`);
}
