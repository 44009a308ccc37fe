/**
 * Chooses the representation of a response once its source is known: a media type of this service, or of the project.
 */
import type { Catalogue } from './catalogue/catalogue.js';
import type { CallPlan } from './plan/call-plan.js';
import type { ReadNode } from './plan/read-plan.js';
import type { ApiRequest, RepresentedRequest } from './request/api-request.js';
import { type CustomMedia, negotiate } from './request/media.js';

export function represented(
  catalogue: Catalogue,
  request: ApiRequest,
  node: ReadNode,
  call: CallPlan | undefined,
): RepresentedRequest {
  const { settings } = catalogue;
  const custom = (type: string) => customMedia(catalogue, node, call, type);
  return { ...request, representation: negotiate(request.accept, { plan: settings.plan, custom }) };
}

/** The media type of a table applies to whole rows, so it needs all columns. */
function customMedia(
  catalogue: Catalogue,
  node: ReadNode,
  call: CallPlan | undefined,
  type: string,
): CustomMedia | undefined {
  if (type.startsWith('application/vnd.pgrst.')) return undefined;
  const named = (domain: string) => (domain !== '*/*' ? domain : type === '*/*' ? 'application/octet-stream' : type);
  const own = call?.routine.media;
  if (own && (own.type === type || own.type === '*/*'))
    return { type: named(own.type), isBytes: own.isBytes, aggregate: undefined };
  if (catalogue.handlers.length === 0) return undefined;
  const handler = catalogue.handler(node.table, type) ?? catalogue.handler(node.table, '*/*');
  if (!handler) return undefined;
  const isOfTable = handler.table !== null;
  if (isOfTable && (node.embeds.length > 0 || node.items.some(({ field }) => field.name !== '*'))) return undefined;
  return { type: named(handler.media), isBytes: handler.isBytes, aggregate: { ...handler, isOfTable } };
}
