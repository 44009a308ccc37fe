/** Handles get, list and watch. Parameters are checked with the real server's messages. Responses come from memory. */

import { parseJson } from '@slipway/program';
import type { Resource } from '../resources/resource.js';
import { invalid } from '../schema/index.js';
import { ApiError, badRequest, expired, failure, notFound } from '../status.js';
import type { Store } from '../storage/store.js';
import type { StoredObject } from '../storage/stored-object.js';
import { acceptedForm } from './negotiation.js';
import { includeObject, type ListMetadata, listPieces, objectJson, type Presentation } from './presentation.js';
import { type Request, sendJson, sendPieces } from './request.js';
import { fieldSelector, labelSelector, type Matcher } from './selectors.js';
import { WatchStream } from './watch-stream.js';

/**
 * Milliseconds after which a watch without timeoutSeconds ends. Up to as long again is added, so that watches don't all
 * end at once.
 */
const WATCH_TIMEOUT_MS = 30 * 60_000;

/** Maximum bytes of a page, because a client has a page in memory twice while decoding it. One object may be larger. */
const MAX_PAGE_BYTES = 4 * 1024 * 1024;

export interface ReadTarget {
  resource: Resource;
  /** Undefined for all namespaces. '' for cluster-scoped resources. */
  namespace: string | undefined;
}

export function presentationOf({ incoming, query }: Request, resource: Resource): Presentation {
  const form = acceptedForm(incoming.headers.accept);
  return { resource, form, include: includeObject(query.get('includeObject')) };
}

export function get(request: Request, store: Store, { resource, namespace }: ReadTarget, name: string): void {
  const presentation = presentationOf(request, resource);
  const version = readVersion(request, 'get');
  if (version !== undefined) checkNotFuture(version, store.revision);
  const stored = store.collection(resource.storage).get(namespace ?? '', name);
  if (!stored) throw notFound(resource, name);
  sendJson(request, 200, objectJson(presentation, stored));
}

interface Selection {
  matches: Matcher | undefined;
  /** Name of the only object that can match, if the selector requires one. */
  name: string | undefined;
}

export function selectionOf({ query }: Request, resource: Resource): Selection {
  const labels = labelSelector(query.get('labelSelector'));
  const { matches: fields, name } = fieldSelector(query.get('fieldSelector'), resource);
  if (!labels || !fields) return { matches: labels ?? fields, name };
  return { matches: (object) => labels(object) && fields(object), name };
}

export async function list(request: Request, store: Store, target: ReadTarget): Promise<void> {
  const presentation = presentationOf(request, target.resource);
  const { items, metadata } = page(request, store, target);
  await sendPieces(request, listPieces(presentation, items, metadata));
}

interface Token {
  v: string;
  rv: number;
  start: string;
}

const placeOf = ({ namespace, name }: StoredObject) => `${namespace}/${name}`;

function page(request: Request, store: Store, { resource, namespace }: ReadTarget) {
  const { query } = request;
  checkMatch(request);
  const limit = readLimit(query.get('limit'));
  const token = readToken(query.get('continue'));
  const version = readVersion(request, 'list');
  if (version !== undefined) checkNotFuture(version, store.revision);
  const exact = query.get('resourceVersionMatch') === 'Exact' ? version : undefined;
  const revision = token?.rv ?? exact ?? store.revision;
  const selection = selectionOf(request, resource);
  let items = selected(listed(store, resource, namespace, revision, token !== undefined), selection);
  if (token) items = items.filter((stored) => placeOf(stored) > token.start);
  const metadata: ListMetadata = { resourceVersion: String(revision) };
  const length = limit > 0 ? lengthOfPage(items, limit) : items.length;
  if (length < items.length) {
    const remaining = items.length - length;
    items = items.slice(0, length);
    const next: Token = { v: 'meta.k8s.io/v1', rv: revision, start: placeOf(items.at(-1) as StoredObject) };
    metadata.continue = Buffer.from(JSON.stringify(next)).toString('base64url');
    if (!selection.matches) metadata.remainingItemCount = remaining;
  }
  return { items, metadata };
}

/**
 * Returns the number of objects in the page. It may be less than the limit: clients continue while there is a
 * `continue` token.
 */
function lengthOfPage(items: readonly StoredObject[], limit: number): number {
  let bytes = 0;
  const end = items.slice(0, limit).findIndex((stored, at) => {
    bytes += stored.bytes.length;
    return at > 0 && bytes > MAX_PAGE_BYTES;
  });
  return end < 0 ? Math.min(limit, items.length) : end;
}

const selected = (items: readonly StoredObject[], { matches }: Selection) =>
  matches ? items.filter(({ outline }) => matches(outline)) : items;

function listed(store: Store, resource: Resource, namespace: string | undefined, revision: number, going: boolean) {
  const collection = store.collection(resource.storage);
  if (revision === store.revision) return collection.list(namespace);
  const items = revision > store.revision ? undefined : collection.listAt(revision, namespace);
  if (items) return items;
  if (!going) throw expired(`The resourceVersion for the provided list is too old.`);
  throw expired(
    'The provided continue parameter is too old to display a consistent list result. You can start a new list ' +
      'without the continue parameter.',
  );
}

function readLimit(text: string | null): number {
  if (text === null || text === '') return 0;
  if (!/^-?\d+$/.test(text)) throw badRequest(`strconv.ParseInt: parsing ${JSON.stringify(text)}: invalid syntax`);
  return Number(text);
}

function readToken(text: string | null): Token | undefined {
  if (!text) return undefined;
  try {
    const token = parseJson(Buffer.from(text, 'base64url')) as Token;
    if (token.v === 'meta.k8s.io/v1' && Number.isSafeInteger(token.rv) && typeof token.start === 'string') return token;
  } catch {
    // The error below is thrown.
  }
  throw badRequest('invalid continue token: continue key is not valid');
}

/** Returns undefined if the request is for the latest state. */
function readVersion({ query }: Request, verb: 'get' | 'list' | 'watch'): number | undefined {
  const text = query.get('resourceVersion');
  if (!text || text === '0') return undefined;
  if (/^\d+$/.test(text)) return Number(text);
  const shown = JSON.stringify(text);
  const words = `resourceVersion: Invalid value: ${shown}: strconv.ParseUint: parsing ${shown}: invalid syntax`;
  throw verb === 'watch' ? failure(500, '', words) : badRequest(`invalid resource version: ${words}`);
}

function checkNotFuture(version: number, current: number): void {
  if (version <= current) return;
  throw failure(504, 'Timeout', `Timeout: Too large resource version: ${version}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  });
}

function checkMatch({ query }: Request): void {
  const match = query.get('resourceVersionMatch');
  const initial = query.get('sendInitialEvents');
  const field = 'resourceVersionMatch';
  const refuse = (detail: string, type = 'FieldValueForbidden' as const) =>
    new ApiError(invalid({ group: 'meta.k8s.io', kind: 'ListOptions' }, '', [{ type, field, detail }]));
  if (isWatch(query)) {
    if (initial !== null && match !== 'NotOlderThan') {
      throw refuse('sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
    }
    if (match && initial === null)
      throw refuse('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided');
    return;
  }
  if (!match) return;
  const version = query.get('resourceVersion');
  if (!version) throw refuse('resourceVersionMatch is forbidden unless resourceVersion is provided');
  if (query.get('continue')) throw refuse('resourceVersionMatch is forbidden when continue is provided');
  if (match !== 'Exact' && match !== 'NotOlderThan') {
    const detail = 'supported values: "Exact", "NotOlderThan", ""';
    throw new ApiError(
      invalid({ group: 'meta.k8s.io', kind: 'ListOptions' }, '', [
        { type: 'FieldValueNotSupported', field, badValue: match, detail },
      ]),
    );
  }
  if (match === 'Exact' && version === '0')
    throw refuse('resourceVersionMatch "exact" is forbidden for resourceVersion "0"');
}

export function isWatch(query: URLSearchParams): boolean {
  const value = query.get('watch');
  return value !== null && value !== '0' && value !== 'false';
}

export function watch(request: Request, store: Store, { resource, namespace }: ReadTarget): WatchStream {
  const { query } = request;
  const presentation = presentationOf(request, resource);
  checkMatch(request);
  const version = readVersion(request, 'watch');
  const { matches } = selectionOf(request, resource);
  const collection = store.collection(resource.storage);
  const wantsInitial = query.get('sendInitialEvents');
  const fromState = wantsInitial === null ? version === undefined : wantsInitial === 'true';
  const { history } = collection;
  const position = fromState || version === undefined ? history.end : history.after(version);
  if (position === undefined) {
    throw expired(`too old resource version: ${version} (${history.complete})`);
  }
  const bookmarks = query.get('allowWatchBookmarks') === 'true' || query.get('allowWatchBookmarks') === '1';
  const stream = new WatchStream({
    ...{ request, collection, presentation, namespace, matches, position, bookmarks },
    initial: fromState ? selected(collection.list(namespace), { matches, name: undefined }) : [],
    announceInitial: wantsInitial === 'true' && bookmarks,
    timeoutMs: watchTimeout(query.get('timeoutSeconds')),
    revision: () => store.revision,
  });
  stream.start();
  return stream;
}

function watchTimeout(text: string | null): number {
  const seconds = readLimit(text);
  return seconds > 0 ? Math.min(seconds * 1000, 2 * WATCH_TIMEOUT_MS) : WATCH_TIMEOUT_MS * (1 + Math.random());
}
