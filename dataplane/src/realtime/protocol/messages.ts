/**
 * Phoenix messages as realtime-js speaks them. In: what came on a socket. Out: messages, and frames of ours. Two
 * encodings: vsn 1.0.0 is a JSON object, 2.0.0 a JSON array; broadcasts of 2.0.0 may be binary (kinds 3, from a client,
 * and 4, to one).
 */
import { binaryFrame, type Frame, textFrame } from './frame.js';
import { parseJson } from './json.js';

export const VERSIONS = ['1.0.0', '2.0.0'] as const;
export type Version = (typeof VERSIONS)[number];

/** A broadcast as a client of 2.0.0 sends it: its payload stays bytes. */
export interface UserBroadcast {
  event: string;
  encoding: 'json' | 'binary';
  payload: Buffer;
}

export interface Incoming {
  topic: string;
  event: string;
  ref: string | null;
  joinRef: string | null;
  /** The binary broadcast itself. */
  payload: unknown;
  broadcast?: UserBroadcast;
  bytes: number;
}

const USER_BROADCAST_PUSH = 3;
const USER_BROADCAST = 4;
const MAX_NAME_BYTES = 255;

/** Undefined: no message of this protocol. */
export function decodeMessage(version: Version, data: Buffer, isBinary: boolean): Incoming | undefined {
  if (isBinary) return version === '2.0.0' ? decodeBinary(data) : undefined;
  const message = parseJson(data);
  if (typeof message !== 'object' || message === null) return undefined;
  const parts = Array.isArray(message) ? message : undefined;
  if ((version === '2.0.0') !== (parts !== undefined)) return undefined;
  const fields = message as Record<string, unknown>;
  const [joinRef, ref, topic, event, payload] = parts ?? [
    fields.join_ref,
    fields.ref,
    fields.topic,
    fields.event,
    fields.payload,
  ];
  if (typeof topic !== 'string' || typeof event !== 'string') return undefined;
  return { topic, event, ref: reference(ref), joinRef: reference(joinRef), payload, bytes: data.length };
}

/** Clients number their messages in text; a number says the same. */
const reference = (value: unknown) =>
  typeof value === 'string' ? value.slice(0, MAX_NAME_BYTES) : typeof value === 'number' ? String(value) : null;

function decodeBinary(data: Buffer): Incoming | undefined {
  if (data.length < 7 || data[0] !== USER_BROADCAST_PUSH) return undefined;
  let at = 7;
  const [joinRef, ref, topic, event] = [1, 2, 3, 4].map((place) => {
    const length = data[place] as number;
    at += length;
    return data.toString('utf8', at - length, at);
  }) as [string, string, string, string];
  at += data[5] as number;
  if (at > data.length) return undefined;
  const encoding = data[6] === 0 ? 'binary' : 'json';
  const payload = data.subarray(at);
  // What is passed on unparsed must be what it says: another client's parser would fail on it.
  if (encoding === 'json' && parseJson(payload) === undefined) return undefined;
  const broadcast: UserBroadcast = { event, encoding, payload };
  const refs = { ref: ref || null, joinRef: joinRef || null };
  return { topic, event: 'broadcast', ...refs, payload: undefined, broadcast, bytes: data.length };
}

/** `payload` is JSON text. */
export function pushFrame(
  version: Version,
  topic: string,
  event: string,
  payload: string,
  joinRef: string | null,
): Frame {
  const [name, kind] = [JSON.stringify(topic), JSON.stringify(event)];
  if (version === '1.0.0') return textFrame(`{"topic":${name},"event":${kind},"payload":${payload},"ref":null}`);
  return textFrame(`[${JSON.stringify(joinRef)},null,${name},${kind},${payload}]`);
}

export function replyFrame(
  version: Version,
  { topic, ref, joinRef }: Pick<Incoming, 'topic' | 'ref' | 'joinRef'>,
  status: 'ok' | 'error',
  response: object,
): Frame {
  const payload = { status, response };
  if (version === '1.0.0') return textFrame(JSON.stringify({ topic, event: 'phx_reply', payload, ref }));
  return textFrame(JSON.stringify([joinRef, ref, topic, 'phx_reply', payload]));
}

/** One broadcast to a topic; each encoding's frame is built when the first socket of it asks, and then shared. */
export class Broadcast {
  readonly #frames = new Map<Version, Frame | undefined>();

  private constructor(
    /** The topic as clients know it: `realtime:<name>`. */
    private readonly topic: string,
    /** Known as bytes (from a client of 2.0.0) or as JSON text of the whole payload. */
    private readonly content: UserBroadcast | string,
    readonly id?: string,
  ) {}

  static ofUser(topic: string, broadcast: UserBroadcast): Broadcast {
    return new Broadcast(topic, broadcast);
  }

  /** `payload` is JSON text of what the sender gave; `meta` of a message that the database sent. */
  static of(topic: string, event: string, payload: string, meta?: { id: string; replayed?: true }): Broadcast {
    const end = meta === undefined ? '' : `,"meta":${JSON.stringify(meta)}`;
    const content = `{"type":"broadcast","event":${JSON.stringify(event)},"payload":${payload}${end}}`;
    return new Broadcast(topic, content, meta?.id);
  }

  /** `payload` is the whole payload as its sender of vsn 1.0.0 gave it. */
  static ofPayload(topic: string, payload: object): Broadcast {
    return new Broadcast(topic, JSON.stringify(payload));
  }

  /** Undefined: it can't be said in that version. */
  frame(version: Version): Frame | undefined {
    if (!this.#frames.has(version)) this.#frames.set(version, this.#build(version));
    return this.#frames.get(version);
  }

  #build(version: Version): Frame | undefined {
    const { topic, content } = this;
    if (typeof content === 'string') return pushFrame(version, topic, 'broadcast', content, null);
    if (version === '2.0.0') return userBroadcastFrame(topic, content);
    if (content.encoding === 'binary') return undefined;
    const payload = `{"type":"broadcast","event":${JSON.stringify(content.event)},"payload":${content.payload.toString()}}`;
    return pushFrame(version, topic, 'broadcast', payload, null);
  }
}

function userBroadcastFrame(topic: string, { event, encoding, payload }: UserBroadcast): Frame | undefined {
  const names = Buffer.from(topic + event);
  const topicLength = Buffer.byteLength(topic);
  const eventLength = names.length - topicLength;
  if (topicLength > MAX_NAME_BYTES || eventLength > MAX_NAME_BYTES) return undefined;
  const header = Buffer.from([USER_BROADCAST, topicLength, eventLength, 0, encoding === 'json' ? 1 : 0]);
  return binaryFrame(Buffer.concat([header, names, payload]));
}
