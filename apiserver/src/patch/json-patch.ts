/** Applies a JSON Patch (RFC 6902). Changes `target`, which the caller owns, and returns the patched document. */
import { isDeepStrictEqual } from 'node:util';
import { copy, define } from '../objects.js';
import { isObject, type JsonObject } from '../schema/json-schema.js';

export interface JsonPatchOperation {
  op: string;
  path: string;
  from?: string;
  value?: unknown;
}

/** Error of a patch that does not fit the document. */
export class JsonPatchError extends Error {}

/** Error of a patch whose `copy` operations exceed the limit. */
export class JsonPatchTooLarge extends Error {}

/** Maximum bytes of JSON that all `copy` operations of one patch may copy, as in the real server. */
export const MAX_COPIED_BYTES = 3 * 2 ** 20;

export function jsonPatch(target: unknown, operations: readonly JsonPatchOperation[]): unknown {
  const root: Root = { document: target, copied: 0 };
  for (const operation of operations) apply(root, operation);
  return root.document;
}

interface Root {
  document: unknown;
  /** Bytes that were copied so far. */
  copied: number;
}

function apply(root: Root, { op, path, from, value }: JsonPatchOperation): void {
  const at = locate(root, path);
  switch (op) {
    case 'add':
      return add(at, copy(value ?? null));
    case 'remove':
      return void remove(at);
    case 'replace':
      read(at);
      return replace(at, copy(value ?? null));
    case 'test':
      if (!isDeepStrictEqual(read(at), value ?? null)) throw new JsonPatchError(`testing value ${path} failed`);
      return;
    case 'move': {
      if (path.startsWith(`${from}/`)) throw new JsonPatchError(`can't move ${from} into itself`);
      const moved = remove(locate(root, from ?? ''));
      return add(locate(root, path), moved);
    }
    case 'copy':
      return add(at, copyWithin(root, read(locate(root, from ?? ''))));
    default:
      throw new JsonPatchError(`unexpected kind: ${op}`);
  }
}

function copyWithin(root: Root, value: unknown): unknown {
  const text = JSON.stringify(value);
  root.copied += Buffer.byteLength(text);
  if (root.copied > MAX_COPIED_BYTES) {
    throw new JsonPatchTooLarge(`the copy operations of the patch copy more than ${MAX_COPIED_BYTES} bytes`);
  }
  return JSON.parse(text);
}

interface Location {
  parent: unknown;
  key: string;
  path: string;
}

function locate(root: Root, path: string): Location {
  if (path !== '' && !path.startsWith('/')) throw new JsonPatchError(`path ${path} does not begin with /`);
  const keys = path
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
  let parent: unknown = root;
  let key = 'document';
  for (const next of keys) {
    parent = child(parent, key, path);
    key = next;
  }
  return { parent, key, path };
}

function child(parent: unknown, key: string, path: string): unknown {
  if (Array.isArray(parent)) return parent[indexIn(key, path, parent.length - 1)];
  if (isObject(parent) && Object.hasOwn(parent, key)) return parent[key];
  throw new JsonPatchError(`missing value at ${path}`);
}

function indexIn(key: string, path: string, last: number): number {
  if (!/^(0|[1-9]\d*)$/.test(key) || Number(key) > last) throw new JsonPatchError(`bad index ${key} at ${path}`);
  return Number(key);
}

const read = ({ parent, key, path }: Location) => child(parent, key, path);

function add({ parent, key, path }: Location, value: unknown): void {
  if (Array.isArray(parent)) {
    const index = key === '-' ? parent.length : indexIn(key, path, parent.length);
    parent.splice(index, 0, value);
  } else if (isObject(parent)) define(parent, key, value);
  else throw new JsonPatchError(`missing container at ${path}`);
}

function replace({ parent, key }: Location, value: unknown): void {
  if (Array.isArray(parent)) parent[Number(key)] = value;
  else define(parent as JsonObject, key, value);
}

function remove(at: Location): unknown {
  const removed = read(at);
  if (Array.isArray(at.parent)) at.parent.splice(Number(at.key), 1);
  else delete (at.parent as Record<string, unknown>)[at.key];
  return removed;
}
