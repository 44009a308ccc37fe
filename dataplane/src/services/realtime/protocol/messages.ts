/**
 * Phoenix messages in realtime-js' protocol. In: bytes from a socket. Out: messages, and frames to send. Version 1.0.0
 * is a JSON object, 2.0.0 a JSON array; broadcasts of 2.0.0 may be binary (kinds 3, from a client, and 4, to one).
 */
import type { Steps } from '../../../bounds/turns.js';
import { binaryFrame, type Frame, textFrame } from './frame.js';
import { memberOf, parseJson, parseJsonInSteps } from './json.js';

export const VERSIONS = ['1.0.0', '2.0.0'] as const;
export type Version = (typeof VERSIONS)[number];

/** Broadcast of a 2.0.0 client, whose payload stays bytes. */
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
  /** Binary frame of the broadcast. */
  payload: unknown;
  /** Text of the payload. */
  json: Buffer;
  broadcast?: UserBroadcast;
  bytes: number;
  /** Bytes of memory that the message takes after decoding. */
  heldBytes: number;
}

const USER_BROADCAST_PUSH = 3;
const USER_BROADCAST = 4;
const MAX_NAME_BYTES = 255;
/** Index of the payload in the array of a 2.0.0 message. */
const PAYLOAD_INDEX = 4;
const NO_JSON = Buffer.alloc(0);

/** Decodes a message. Returns undefined if it is invalid. */
export function decodeMessage(version: Version, data: Buffer, isBinary: boolean): Incoming | undefined {
  if (isBinary) return version === '2.0.0' ? checked(decodeBinary(data), parseJson) : undefined;
  let heldBytes = 0;
  const message = parseJson(data, (heapBytes) => {
    heldBytes = heapBytes;
  });
  return messageOf(version, data, message, heldBytes);
}

/** Decodes a message that is too large for one turn of the event loop. */
export function* decodeLargeMessage(version: Version, data: Buffer, isBinary: boolean): Steps<Incoming | undefined> {
  if (isBinary) {
    const message = version === '2.0.0' ? decodeBinary(data) : undefined;
    const { broadcast } = message ?? {};
    const json = broadcast?.encoding === 'json' ? yield* parseJsonInSteps(broadcast.payload) : null;
    return checked(message, () => json);
  }
  let heldBytes = 0;
  const message = yield* parseJsonInSteps(data, (heapBytes) => {
    heldBytes = heapBytes;
  });
  yield;
  const incoming = messageOf(version, data, message, heldBytes);
  // Its frames are built in another turn.
  yield;
  return incoming;
}

/** Rejects a broadcast with invalid JSON, on which another client's parser would fail. */
function checked(message: Incoming | undefined, parse: (json: Buffer) => unknown): Incoming | undefined {
  const { broadcast } = message ?? {};
  const isWrong = broadcast?.encoding === 'json' && parse(broadcast.payload) === undefined;
  return isWrong ? undefined : message;
}

function messageOf(version: Version, data: Buffer, message: unknown, heldBytes: number): Incoming | undefined {
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
  const refs = { ref: reference(ref), joinRef: reference(joinRef) };
  const json = memberOf(data, parts ? PAYLOAD_INDEX : 'payload') ?? NO_JSON;
  return { topic, event, ...refs, payload, json, bytes: data.length, heldBytes };
}

/** Clients number their messages in text; a number is equivalent. */
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
  const broadcast: UserBroadcast = { event, encoding, payload };
  const refs = { ref: ref || null, joinRef: joinRef || null };
  const size = { bytes: data.length, heldBytes: data.length };
  return { topic, event: 'broadcast', ...refs, payload: undefined, json: NO_JSON, broadcast, ...size };
}

/** Builds a frame. `payload` is JSON text. */
export function pushFrame(
  version: Version,
  { topic, event, joinRef = null }: { topic: string; event: string; joinRef?: string | null },
  payload: string | Buffer,
): Frame {
  const [name, kind] = [JSON.stringify(topic), JSON.stringify(event)];
  if (version === '1.0.0') return textFrame(`{"topic":${name},"event":${kind},"payload":`, payload, ',"ref":null}');
  return textFrame(`[${JSON.stringify(joinRef)},null,${name},${kind},`, payload, ']');
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

/** Broadcast to a topic. The frame of each encoding is built for its first socket, and then shared. */
export class Broadcast {
  readonly #frames = new Map<Version, Frame | undefined>();

  private constructor(
    /** The topic as clients know it: `realtime:<name>`. */
    private readonly topic: string,
    /** Bytes from a client of 2.0.0, or JSON text of the whole payload. */
    private readonly content: UserBroadcast | string | Buffer,
    readonly id?: string,
  ) {}

  static ofUser(topic: string, broadcast: UserBroadcast): Broadcast {
    return new Broadcast(topic, broadcast);
  }

  /** `payload` is the sender's JSON text; `meta` belongs to a message of the database. */
  static of(topic: string, event: string, payload: string, meta?: { id: string; replayed?: true }): Broadcast {
    const end = meta === undefined ? '' : `,"meta":${JSON.stringify(meta)}`;
    return new Broadcast(topic, `${beginningOf(event)}${payload}${end}}`, meta?.id);
  }

  /** `payload` is the sender's JSON text. */
  static ofText(topic: string, event: string, payload: Buffer): Broadcast {
    return new Broadcast(topic, Buffer.concat([Buffer.from(beginningOf(event)), payload, Buffer.from('}')]));
  }

  /** `json` is the text of the whole payload, unchanged. */
  static ofJson(topic: string, json: Buffer): Broadcast {
    return new Broadcast(topic, json);
  }

  /** Returns undefined if the version can't represent the broadcast. */
  frame(version: Version): Frame | undefined {
    if (!this.#frames.has(version)) this.#frames.set(version, this.#build(version));
    return this.#frames.get(version);
  }

  #build(version: Version): Frame | undefined {
    const { topic, content } = this;
    if (typeof content === 'string' || Buffer.isBuffer(content))
      return pushFrame(version, { topic, event: 'broadcast' }, content);
    if (version === '2.0.0') return userBroadcastFrame(topic, content);
    if (content.encoding === 'binary') return undefined;
    const payload = Buffer.concat([Buffer.from(beginningOf(content.event)), content.payload, Buffer.from('}')]);
    return pushFrame(version, { topic, event: 'broadcast' }, payload);
  }
}

const beginningOf = (event: string) => `{"type":"broadcast","event":${JSON.stringify(event)},"payload":`;

function userBroadcastFrame(topic: string, { event, encoding, payload }: UserBroadcast): Frame | undefined {
  const names = Buffer.from(topic + event);
  const topicLength = Buffer.byteLength(topic);
  const eventLength = names.length - topicLength;
  if (topicLength > MAX_NAME_BYTES || eventLength > MAX_NAME_BYTES) return undefined;
  const header = Buffer.from([USER_BROADCAST, topicLength, eventLength, 0, encoding === 'json' ? 1 : 0]);
  return binaryFrame(Buffer.concat([header, names, payload]));
}
