/**
 * Broadcasts by REST: POST /api/broadcast with a list, POST /api/broadcast/<topic>/events/<event> with one. In: a
 * request whose caller the gateway decided. Out: 202 when it was handed on; a private message that the caller may not
 * send is dropped, as upstream does.
 */
import { readBody } from '../request-body.js';
import type { ServiceRequest } from '../service.js';
import { mayWrite } from './database/authorization.js';
import type { Hub } from './hub.js';
import { parseJson } from './protocol/json.js';
import { Broadcast, type UserBroadcast } from './protocol/messages.js';

export interface Answer {
  status: number;
  body?: object;
}

interface Message {
  topic: string;
  event: string;
  payload: object | UserBroadcast;
  isPrivate: boolean;
}

const MAX_MESSAGES = 1000;
const SINGLE = /^\/api\/broadcast\/([^/]+)\/events\/([^/]+)$/;

/** Undefined: no such route. */
export async function answerBroadcast(hub: Hub, request: ServiceRequest): Promise<Answer | undefined> {
  const { path, incoming, query } = request;
  const single = SINGLE.exec(path);
  if (path !== '/api/broadcast' && single === null) return undefined;
  if (incoming.method !== 'POST') return { status: 405, body: { message: 'Send it by POST' } };
  const body = await readBody(incoming, hub.limits.payloadBytes + 64 * 1024);
  const isBinary = incoming.headers['content-type']?.startsWith('application/octet-stream') ?? false;
  const messages = single === null ? readList(body) : readOne(single, query, body, isBinary);
  if ('status' in messages) return messages;
  if (messages.some(({ payload }) => sizeOf(payload) > hub.limits.payloadBytes)) {
    return { status: 422, body: { errors: { payload: ['Payload size exceeds tenant limit'] } } };
  }
  if (!hub.events.take(messages.length)) return { status: 429, body: { message: 'You have exceeded your rate limit' } };
  await hub.ready();
  const allowed = new Map<string, boolean>();
  for (const { topic, event, payload, isPrivate } of messages) {
    if (isPrivate && !allowed.has(topic)) {
      allowed.set(topic, (await mayWrite(hub.pool, request.caller, topic)).broadcast);
    }
    if (isPrivate && !allowed.get(topic)) continue;
    hub.find(topic, isPrivate)?.broadcast(broadcastOf(`realtime:${topic}`, event, payload));
  }
  return { status: 202 };
}

const broadcastOf = (topic: string, event: string, payload: object | UserBroadcast) =>
  'encoding' in payload && Buffer.isBuffer(payload.payload)
    ? Broadcast.ofUser(topic, payload as UserBroadcast)
    : Broadcast.of(topic, event, JSON.stringify(payload));

const sizeOf = (payload: object) =>
  'payload' in payload && Buffer.isBuffer(payload.payload)
    ? payload.payload.length
    : Buffer.byteLength(JSON.stringify(payload));

const unprocessable = (errors: object): Answer => ({ status: 422, body: { errors } });
const BLANK = ["can't be blank"];

function readList(body: Buffer): Message[] | Answer {
  const { messages } = (parseJson(body) ?? {}) as { messages?: unknown };
  if (!Array.isArray(messages)) return unprocessable({ messages: BLANK });
  if (messages.length > MAX_MESSAGES) return unprocessable({ messages: [`has more than ${MAX_MESSAGES} entries`] });
  const read: Message[] = [];
  const errors = messages.map((message: unknown) => {
    const { topic, event, payload, private: isPrivate } = (message ?? {}) as Record<string, unknown>;
    const wrong: Record<string, string[]> = {};
    if (!isName(topic)) wrong.topic = BLANK;
    if (!isName(event)) wrong.event = BLANK;
    if (typeof payload !== 'object' || payload === null) wrong.payload = BLANK;
    if (Object.keys(wrong).length === 0) {
      read.push({ topic, event, payload, isPrivate: isPrivate === true } as Message);
    }
    return wrong;
  });
  return read.length === messages.length ? read : unprocessable({ messages: errors });
}

function readOne(found: RegExpExecArray, query: string, body: Buffer, isBinary: boolean): Message[] | Answer {
  const [topic, event] = [found[1], found[2]].map((text) => {
    try {
      return decodeURIComponent(text as string);
    } catch {
      return '';
    }
  });
  if (!isName(topic) || !isName(event)) return unprocessable({ topic: ['is invalid'] });
  const isPrivate = new URLSearchParams(query).get('private') === 'true';
  if (isBinary) return [{ topic, event, payload: { event, encoding: 'binary', payload: body }, isPrivate }];
  const payload = parseJson(body);
  if (typeof payload !== 'object' || payload === null) return unprocessable({ payload: BLANK });
  return [{ topic, event, payload, isPrivate }];
}

const isName = (value: unknown): value is string => typeof value === 'string' && value !== '' && !value.includes('\0');
