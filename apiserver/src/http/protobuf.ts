/**
 * Decodes protobuf bodies, which `kubectl create namespace|secret|configmap` always sends. Responses are JSON, which
 * kubectl accepts too. In: a body that begins with the magic bytes. Out: the object as decoded from JSON.
 */

import { define } from '../objects.js';
import type { JsonObject } from '../schema/json-schema.js';
import { badRequest } from '../status.js';
import { MOST_VALUES, tooManyValues } from './request.js';

export const PROTOBUF = 'application/vnd.kubernetes.protobuf';
const MAGIC = Buffer.from('k8s\0', 'latin1');

/** A field of a message. A message has the field numbers of the published .proto files. */
type Field = { name: string; type: 'string' | 'bytes' | 'number' | 'boolean' | Message; many?: 'list' | 'map' };
type Message = { [number: number]: Field };

const text = (name: string): Field => ({ name, type: 'string' });
const map = (name: string, type: 'string' | 'bytes' = 'string'): Field => ({ name, type, many: 'map' });

const OWNER_REFERENCE: Message = {
  1: text('kind'),
  3: text('name'),
  4: text('uid'),
  5: text('apiVersion'),
  6: { name: 'controller', type: 'boolean' },
  7: { name: 'blockOwnerDeletion', type: 'boolean' },
};
/** Fields of `metadata`, without those that only the server sets. */
const METADATA: Message = {
  1: text('name'),
  2: text('generateName'),
  3: text('namespace'),
  5: text('uid'),
  6: text('resourceVersion'),
  11: map('labels'),
  12: map('annotations'),
  13: { name: 'ownerReferences', type: OWNER_REFERENCE, many: 'list' },
  14: { name: 'finalizers', type: 'string', many: 'list' },
};
const metadata: Field = { name: 'metadata', type: METADATA };
const immutable: Field = { name: 'immutable', type: 'boolean' };
const KINDS: Record<string, Message> = {
  Namespace: { 1: metadata, 2: { name: 'spec', type: { 1: { name: 'finalizers', type: 'string', many: 'list' } } } },
  Secret: { 1: metadata, 2: map('data', 'bytes'), 3: text('type'), 4: map('stringData'), 5: immutable },
  ConfigMap: { 1: metadata, 2: map('data'), 3: map('binaryData', 'bytes'), 4: immutable },
};
const ENVELOPE: Message = {
  1: { name: 'typeMeta', type: { 1: text('apiVersion'), 2: text('kind') } },
  2: { name: 'raw', type: 'bytes' },
};

/** Returns undefined for a kind that is not supported here. */
export function fromProtobuf(body: Buffer): JsonObject | undefined {
  if (!body.subarray(0, MAGIC.length).equals(MAGIC)) throw badRequest('the body is not protobuf of Kubernetes');
  const left = { fields: MOST_VALUES };
  const { typeMeta = {}, raw = '' } = read(body.subarray(MAGIC.length), ENVELOPE, left) as {
    typeMeta?: { apiVersion?: string; kind?: string };
    raw?: string;
  };
  const message = typeMeta.apiVersion === 'v1' ? KINDS[typeMeta.kind ?? ''] : undefined;
  return message && { ...typeMeta, ...read(Buffer.from(raw, 'base64'), message, left) };
}

class Reader {
  #at = 0;

  constructor(readonly bytes: Buffer) {}

  get done(): boolean {
    return this.#at >= this.bytes.length;
  }

  varint(): number {
    let value = 0;
    for (let shift = 0; shift < 64; shift += 7) {
      const byte = this.bytes[this.#at++];
      if (byte === undefined) throw truncated();
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
    throw truncated();
  }

  chunk(length = this.varint()): Buffer {
    const end = this.#at + length;
    if (end > this.bytes.length) throw truncated();
    const chunk = this.bytes.subarray(this.#at, end);
    this.#at = end;
    return chunk;
  }
}

const truncated = () => badRequest('the protobuf body is cut short');

/** The fields that the rest of the body may still contain. */
interface Left {
  fields: number;
}

function read(bytes: Buffer, message: Message, left: Left): JsonObject {
  const reader = new Reader(bytes);
  const object: JsonObject = {};
  while (!reader.done) {
    if (left.fields-- === 0) throw tooManyValues();
    const tag = reader.varint();
    const value = wireValue(reader, tag & 7);
    const field = message[Math.floor(tag / 8)];
    if (field) put(object, field, value, left);
  }
  return object;
}

/** Returns a number, or the bytes of a longer value. */
function wireValue(reader: Reader, type: number): number | Buffer {
  if (type === 0) return reader.varint();
  if (type === 2) return reader.chunk();
  if (type === 1) return reader.chunk(8);
  if (type === 5) return reader.chunk(4);
  throw badRequest(`the protobuf body has an unknown wire type ${type}`);
}

function put(object: JsonObject, { name, type, many }: Field, value: number | Buffer, left: Left): void {
  if (many === 'map') {
    const entry = read(value as Buffer, { 1: text('key'), 2: { name: 'value', type } }, left);
    const entries = (object[name] ??= {}) as JsonObject;
    return define(entries, String(entry.key ?? ''), entry.value ?? '');
  }
  const converted = convert(type, value, left);
  if (many === 'list') ((object[name] ??= []) as unknown[]).push(converted);
  // Go writes empty strings, which its JSON leaves out.
  else if (converted !== '') object[name] = converted;
}

function convert(type: Field['type'], value: number | Buffer, left: Left): unknown {
  if (type === 'number') return value;
  if (type === 'boolean') return value !== 0;
  if (typeof value === 'number') throw badRequest('the protobuf body has a number where it may not');
  if (type === 'string') return value.toString('utf8');
  return type === 'bytes' ? value.toString('base64') : read(value, type, left);
}
