/**
 * REST routes for broadcasts: POST /api/broadcast with a list, POST /api/broadcast/<topic>/events/<event> with one. In:
 * an authenticated request. Out: 202 once the messages are forwarded. A private message that the caller may not send is
 * dropped, as in upstream.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { inTurns, STEP_BYTES } from '../../bounds/turns.js';
import { heapOf, readBody } from '../../http/request-body.js';
import type { ServiceRequest } from '../service.js';
import { mayWrite } from './database/authorization.js';
import type { Hub } from './hub.js';
import { elementsOf, memberOf, parseJsonInSteps } from './protocol/json.js';
import { Broadcast } from './protocol/messages.js';

export interface Answer {
  status: number;
  body?: object;
}

interface Message {
  topic: string;
  event: string;
  /** Payload: bytes, or JSON text. */
  payload: Buffer;
  isPrivate: boolean;
}

const MAX_MESSAGES = 1000;
const SINGLE = /^\/api\/broadcast\/([^/]+)\/events\/([^/]+)$/;

/** Returns undefined for an unknown route. */
export async function answerBroadcast(hub: Hub, request: ServiceRequest): Promise<Answer | undefined> {
  const { path, incoming, query } = request;
  const single = SINGLE.exec(path);
  if (path !== '/api/broadcast' && single === null) return undefined;
  if (incoming.method !== 'POST') return { status: 405, body: { message: 'Send broadcasts with POST' } };
  const body = await readBody(request, hub.limits.payloadBytes + 64 * 1024);
  const isBinary = incoming.headers['content-type']?.startsWith('application/octet-stream') ?? false;
  const isRaw = isBinary && single !== null;
  const decoded = isRaw ? body : await inTurns(request.tenant.ref, parseJsonInSteps(body, heapOf(request)));
  const messages = single === null ? readList(decoded, body) : readOne(single, query, decoded, body);
  if ('status' in messages) return messages;
  if (messages.some(({ payload }) => payload.length > hub.limits.payloadBytes)) {
    return { status: 422, body: { errors: { payload: ['Payload size exceeds tenant limit'] } } };
  }
  if (!hub.events.tryTake(messages.length))
    return { status: 429, body: { message: 'You have exceeded your rate limit' } };
  await hub.ready();
  const allowed = new Map<string, boolean>();
  for (const { topic, event, payload, isPrivate } of messages) {
    if (payload.length > STEP_BYTES) await nextTurn();
    if (isPrivate && !allowed.has(topic)) {
      allowed.set(topic, (await mayWrite(hub.pool, request.caller, topic)).broadcast);
    }
    if (isPrivate && !allowed.get(topic)) continue;
    hub.find(topic, isPrivate)?.broadcast(broadcastOf(`realtime:${topic}`, event, payload, isRaw));
  }
  return { status: 202 };
}

const broadcastOf = (topic: string, event: string, payload: Buffer, isRaw: boolean) =>
  isRaw ? Broadcast.ofUser(topic, { event, encoding: 'binary', payload }) : Broadcast.ofText(topic, event, payload);

const unprocessable = (errors: object): Answer => ({ status: 422, body: { errors } });
const BLANK = ["can't be blank"];

/** Reads a list of messages. `body` is the text of the decoded JSON, from which payloads are forwarded unchanged. */
function readList(decoded: unknown, body: Buffer): Message[] | Answer {
  const { messages } = (decoded ?? {}) as { messages?: unknown };
  if (!Array.isArray(messages)) return unprocessable({ messages: BLANK });
  if (messages.length > MAX_MESSAGES) return unprocessable({ messages: [`has more than ${MAX_MESSAGES} entries`] });
  const read: Message[] = [];
  const texts = elementsOf(memberOf(body, 'messages') as Buffer);
  const errors = messages.map((message: unknown, at) => {
    const { topic, event, payload, private: isPrivate } = (message ?? {}) as Record<string, unknown>;
    const wrong: Record<string, string[]> = {};
    if (!isName(topic)) wrong.topic = BLANK;
    if (!isName(event)) wrong.event = BLANK;
    if (typeof payload !== 'object' || payload === null) wrong.payload = BLANK;
    if (Object.keys(wrong).length === 0) {
      const text = memberOf(texts[at] as Buffer, 'payload') as Buffer;
      read.push({ topic: topic as string, event: event as string, payload: text, isPrivate: isPrivate === true });
    }
    return wrong;
  });
  return read.length === messages.length ? read : unprocessable({ messages: errors });
}

/** Reads one message. `payload`: bytes of a binary message, or decoded JSON, whose text is `body`. */
function readOne(match: RegExpExecArray, query: string, payload: unknown, body: Buffer): Message[] | Answer {
  const [topic, event] = [match[1], match[2]].map((text) => {
    try {
      return decodeURIComponent(text as string);
    } catch {
      return '';
    }
  });
  if (!isName(topic) || !isName(event)) return unprocessable({ topic: ['is invalid'] });
  const isPrivate = new URLSearchParams(query).get('private') === 'true';
  if (typeof payload !== 'object' || payload === null) return unprocessable({ payload: BLANK });
  return [{ topic, event, payload: body, isPrivate }];
}

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '' && !value.includes('\0');
