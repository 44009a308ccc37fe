/** Selects the handler by path and method. Unknown paths and methods get 404 or 405 with the real server's messages. */
import { underWay } from '@slipway/program';
import type { Registry } from '../resources/registry.js';
import type { Resource } from '../resources/resource.js';
import { methodNotAllowed, noSuchResource } from '../status.js';
import { type Discovery, VERSION } from './discovery.js';
import { acceptedForm } from './negotiation.js';
import { get, isWatch, list, watch } from './reads.js';
import { type Request, sendJson, sendText } from './request.js';
import type { WatchStream } from './watch-stream.js';
import { type Context, create, patch, remove, removeCollection, update } from './write-handlers.js';

export interface Routing extends Context {
  registry: Registry;
  discovery: Discovery;
  /** The open watches, which the server ends at its end. */
  watches: Set<WatchStream>;
}

/** Paths that need no token, because they show nothing that is stored. */
export const PUBLIC_PATHS = new Set(['/healthz', '/livez', '/readyz', '/version', '/version/']);

export function answerPublic(request: Request, { store }: Routing): void {
  if (request.path.startsWith('/version')) return sendJson(request, 200, JSON.stringify(VERSION));
  if (request.path === '/readyz' && !store.writable) return sendText(request, 503, 'the database is not reachable');
  sendText(request, 200, 'ok');
}

export async function route(request: Request, routing: Routing): Promise<void> {
  const located = locate(request.path, routing.registry);
  if (located) {
    nameWork(request, located);
    // The body is decoded in the turn in which it ends.
    request.incoming.once('end', () => nameWork(request, located));
    return handle(request, routing, located);
  }
  const document = routing.discovery.document(request.path);
  if (document === undefined) return refuse(request, routing);
  if (request.method !== 'GET') throw methodNotAllowed();
  acceptedForm(discoveryAccept(request));
  sendJson(request, 200, document);
}

/** Labels the current work for the watchdog. */
function nameWork({ method }: Request, { resource, namespace = '', name = '' }: Located): void {
  underWay('', `${method} ${resource.plural} ${namespace}/${name}`);
}

/** Aggregated discovery is optional, because the plain lists have the same content. OpenAPI is always JSON. */
const discoveryAccept = ({ path, incoming }: Request) =>
  path.startsWith('/openapi/') ? undefined : incoming.headers.accept;

/** Refuses an unknown path. The response is a Status within a served group and version, and plain text elsewhere. */
function refuse(request: Request, { discovery }: Routing): void {
  const parts = request.path.split('/');
  const prefix = parts.slice(0, parts[1] === 'api' ? 3 : 4).join('/');
  if (discovery.document(prefix) !== undefined && prefix !== '/apis') throw noSuchResource();
  sendText(request, 404, '404 page not found\n');
}

interface Located {
  resource: Resource;
  /** Undefined for all namespaces. '' for cluster-scoped resources. */
  namespace: string | undefined;
  name: string | undefined;
  subresource: string;
}

function locate(path: string, registry: Registry): Located | undefined {
  const parts = path.split('/').filter(Boolean).map(decoded);
  const root = parts.shift();
  if (root !== 'api' && root !== 'apis') return undefined;
  const group = root === 'api' ? '' : (parts.shift() ?? '');
  const version = parts.shift() ?? '';
  const find = (plural: string | undefined) => (plural ? registry.find(group, version, plural) : undefined);
  if (parts[0] === 'namespaces' && parts.length > 2) {
    const inside = find(parts[2]);
    if (inside?.namespaced && parts.length <= 5) {
      return { resource: inside, namespace: parts[1], name: parts[3], subresource: parts[4] ?? '' };
    }
  }
  const resource = find(parts[0]);
  if (!resource || parts.length > 3) return undefined;
  const namespace = resource.namespaced ? undefined : '';
  if (resource.namespaced && parts.length > 1) return undefined;
  return { resource, namespace, name: parts[1], subresource: parts[2] ?? '' };
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

async function handle(request: Request, routing: Routing, located: Located): Promise<void> {
  const { resource, name, subresource } = located;
  if (name === undefined) return handleCollection(request, routing, located);
  if (!isSubresource(resource, subresource)) throw noSuchResource();
  const target = { resource, namespace: located.namespace ?? '', subresource };
  switch (request.method) {
    case 'GET':
    case 'HEAD':
      if (subresource === 'finalize') throw methodNotAllowed();
      if (isWatch(request.query)) return watchOne(request, routing, located);
      return get(request, routing.store, target, name);
    case 'PUT':
      return update(request, routing, target, name);
    case 'PATCH':
      if (subresource === 'finalize') throw methodNotAllowed();
      return patch(request, routing, target, name);
    case 'DELETE':
      if (subresource !== '') throw methodNotAllowed();
      return remove(request, routing, target, name);
    default:
      throw methodNotAllowed();
  }
}

const isSubresource = (resource: Resource, name: string): name is '' | 'status' | 'finalize' =>
  name === '' || (resource.subresources as readonly string[]).includes(name);

async function handleCollection(request: Request, routing: Routing, located: Located): Promise<void> {
  const { resource, namespace } = located;
  switch (request.method) {
    case 'GET':
    case 'HEAD':
      if (!isWatch(request.query)) return list(request, routing.store, located);
      return follow(request, routing, located);
    case 'POST':
      if (namespace === undefined) throw methodNotAllowed();
      return create(request, routing, { resource, namespace, subresource: '' });
    case 'DELETE':
      if (!resource.verbs.includes('deletecollection')) throw methodNotAllowed();
      return removeCollection(request, routing, { resource, namespace });
    default:
      throw methodNotAllowed();
  }
}

function watchOne(request: Request, routing: Routing, located: Located): void {
  const selectors = [request.query.get('fieldSelector'), `metadata.name=${located.name}`];
  request.query.set('fieldSelector', selectors.filter(Boolean).join(','));
  follow(request, routing, located);
}

function follow(request: Request, { store, watches }: Routing, located: Located): void {
  const stream = watch(request, store, located);
  watches.add(stream);
  request.response.once('close', () => watches.delete(stream));
}
