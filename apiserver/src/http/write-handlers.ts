/** Handles create, update, patch and delete: reads parameters and bodies, and calls the rules of writing. */
import { parse as parseYaml } from 'yaml';
import { JsonPatchError, type JsonPatchOperation, JsonPatchTooLarge, jsonPatch } from '../patch/json-patch.js';
import { mergePatch } from '../patch/merge-patch.js';
import { strategicMergePatch } from '../patch/strategic-merge-patch.js';
import type { FieldValidation } from '../resources/decode.js';
import type { DeleteOptions } from '../resources/deletion.js';
import type { Resource } from '../resources/resource.js';
import type { WriteTarget } from '../resources/write-target.js';
import type { Edit, WriteOptions, Writes, Written } from '../resources/writes.js';
import { invalid, type JsonObject } from '../schema/index.js';
import { isObject } from '../schema/json-schema.js';
import { ApiError, badRequest, failure, forbidden } from '../status.js';
import type { Store } from '../storage/store.js';
import { listPieces, objectJson } from './presentation.js';
import { fromProtobuf, PROTOBUF } from './protobuf.js';
import { presentationOf, selectionOf } from './reads.js';
import {
  contentType,
  parseJson,
  type Request,
  readBody,
  readText,
  sendJson,
  sendPieces,
  unsupportedMediaType,
} from './request.js';

const JSON_TYPES = ['application/json'];
const JSON_PATCH = 'application/json-patch+json';
const MERGE_PATCH = 'application/merge-patch+json';
const STRATEGIC_PATCH = 'application/strategic-merge-patch+json';
const APPLY = 'application/apply-patch+yaml';
const CUSTOM_PATCHES = [JSON_PATCH, MERGE_PATCH, APPLY];
const PATCHES = [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY];

/** Namespaces that can't be deleted, because the platform could not store its own objects without them. */
const KEPT_NAMESPACES = new Set(['default', 'kube-system', 'kube-public']);

export interface Context {
  store: Store;
  writes: Writes;
}

export async function create(request: Request, { writes }: Context, target: WriteTarget): Promise<void> {
  const presentation = presentationOf(request, target.resource);
  const options = writeOptions(request, 'CreateOptions');
  const body = await readObject(request, target.resource);
  const { stored } = await writes.create(target, body, options);
  sendJson(request, 201, objectJson(presentation, stored));
}

export async function update(request: Request, { writes }: Context, target: WriteTarget, name: string): Promise<void> {
  const options = writeOptions(request, 'UpdateOptions');
  const body = await readObject(request, target.resource);
  answer(request, target, await writes.update(target, name, body, options));
}

export async function patch(request: Request, { writes }: Context, target: WriteTarget, name: string): Promise<void> {
  const type = contentType(request, target.resource.custom ? CUSTOM_PATCHES : PATCHES);
  const options = writeOptions(request, 'PatchOptions');
  const text = await readText(request);
  if (type === APPLY) return applyPatch(request, { writes }, target, name, text, options);
  answer(request, target, await writes.edit(target, name, await editOf(type, text), options));
}

type Applying = Pick<Context, 'writes'>;

async function applyPatch(
  request: Request,
  { writes }: Applying,
  target: WriteTarget,
  name: string,
  text: string,
  options: WriteOptions,
): Promise<void> {
  if (!request.query.get('fieldManager')) {
    throw new ApiError(
      invalid({ group: 'meta.k8s.io', kind: 'PatchOptions' }, '', [
        { type: 'FieldValueRequired', field: 'fieldManager', detail: 'is required for apply patch' },
      ]),
    );
  }
  const applied = await parseApplied(text);
  const force = isTrue(request.query.get('force'));
  answer(request, target, await writes.apply(target, name, applied, { ...options, force }));
}

/**
 * Maximum characters of YAML. Decoding them takes 10 ms of processor time, a thousand times as long as decoding JSON,
 * which kubectl sends.
 */
const MOST_YAML = 4 * 1024;

async function parseApplied(text: string): Promise<JsonObject> {
  if (text.trimStart().startsWith('{')) return objectOf(await parseJson(text, 'error decoding YAML'));
  if (text.length > MOST_YAML) {
    throw failure(413, 'RequestEntityTooLarge', `Request entity too large: limit of YAML is ${MOST_YAML}; send JSON`);
  }
  let applied: unknown;
  try {
    applied = parseYaml(text);
  } catch (error) {
    throw badRequest(`error decoding YAML: ${(error as Error).message}`);
  }
  return objectOf(applied);
}

function objectOf(applied: unknown): JsonObject {
  if (!isObject(applied)) throw badRequest('error decoding YAML: the patch is not an object');
  return applied;
}

async function editOf(type: string, text: string): Promise<Edit> {
  const body = await parseJson(text, 'error decoding patch');
  if (type === JSON_PATCH) return jsonPatchEdit(body);
  if (!isObject(body))
    throw badRequest('error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}');
  return type === MERGE_PATCH ? (draft) => mergePatch(draft, body) : (draft) => strategicMergePatch(draft, body);
}

function jsonPatchEdit(body: unknown): Edit {
  if (!Array.isArray(body)) {
    throw badRequest(
      `error decoding patch: json: cannot unmarshal ${typeof body} into Go value of type []handlers.jsonPatchOp`,
    );
  }
  return (draft) => {
    try {
      return jsonPatch(draft, body as JsonPatchOperation[]);
    } catch (error) {
      if (error instanceof JsonPatchTooLarge) {
        throw failure(413, 'RequestEntityTooLarge', `Request entity too large: ${error.message}`);
      }
      if (!(error instanceof JsonPatchError)) throw error;
      throw failure(422, 'Invalid', 'the server rejected our request due to an error in our request', {});
    }
  };
}

function answer(request: Request, target: WriteTarget, { stored, created }: Written): void {
  sendJson(request, created ? 201 : 200, objectJson(presentationOf(request, target.resource), stored));
}

async function readObject(request: Request, resource: Resource): Promise<unknown> {
  const type = contentType(request, [...JSON_TYPES, PROTOBUF]);
  if (type === PROTOBUF) {
    const object = fromProtobuf(await readBody(request));
    if (!object || resource.custom) throw unsupportedMediaType(JSON_TYPES);
    return object;
  }
  return parseJson(
    await readBody(request),
    `the object provided is unrecognized (must be of type ${resource.kind}): couldn't get version/kind`,
  );
}

const isTrue = (text: string | null) => text === 'true' || text === '1';

function writeOptions({ query, incoming, warnings }: Request, kind: string): WriteOptions {
  const validation = query.get('fieldValidation') || 'Warn';
  if (validation !== 'Ignore' && validation !== 'Warn' && validation !== 'Strict') {
    throw unsupported(kind, 'fieldValidation', JSON.stringify(validation), '"Ignore", "Strict", "Warn"');
  }
  const agent = (incoming.headers['user-agent'] ?? '').split('/')[0] ?? '';
  return {
    dryRun: readDryRun(query.getAll('dryRun'), kind),
    fieldValidation: validation as FieldValidation,
    manager: (query.get('fieldManager') || agent || 'unknown').slice(0, 128),
    warnings,
  };
}

function readDryRun(values: string[], kind: string): boolean {
  const given = values.filter(Boolean);
  if (given.length === 0) return false;
  if (given.every((value) => value === 'All')) return true;
  throw unsupported(kind, 'dryRun', `[${given.map((value) => JSON.stringify(value)).join(',')}]`, '"All"');
}

function unsupported(kind: string, field: string, shown: string, supported: string): ApiError {
  const message = `Unsupported value: ${shown}: supported values: ${supported}`;
  return failure(422, 'Invalid', `${kind}.meta.k8s.io "" is invalid: ${field}: ${message}`, {
    group: 'meta.k8s.io',
    kind,
    causes: [{ reason: 'FieldValueNotSupported', message, field }],
  });
}

export async function remove(request: Request, { writes }: Context, target: WriteTarget, name: string): Promise<void> {
  const { resource } = target;
  const options = await deleteOptions(request);
  checkDeletable(resource, name);
  const { stored, isRemoved } = await writes.delete(target, name, options);
  if (!isRemoved || resource.storage === 'namespaces') {
    return sendJson(request, 200, objectJson(presentationOf(request, resource), stored));
  }
  const { group, plural } = resource;
  const details = { name, ...(group && { group }), kind: plural, uid: stored.outline.metadata.uid };
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details };
  sendJson(request, 200, JSON.stringify(status));
}

function checkDeletable(resource: Resource, name: string): void {
  if (resource.storage !== 'namespaces' || !KEPT_NAMESPACES.has(name)) return;
  throw forbidden(resource, name, 'this namespace may not be deleted');
}

/** Deletes each of the selected objects by a separate write. An object that is already deleted is no error. */
export async function removeCollection(
  request: Request,
  { store, writes }: Context,
  { resource, namespace }: { resource: Resource; namespace: string | undefined },
): Promise<void> {
  const presentation = presentationOf(request, resource);
  const options = await deleteOptions(request);
  const { matches } = selectionOf(request, resource);
  const all = store.collection(resource.storage).list(namespace);
  const chosen = matches ? all.filter(({ outline }) => matches(outline)) : all;
  await Promise.all(
    chosen.map(async ({ namespace: own, name, outline }) => {
      const preconditions = { uid: outline.metadata.uid };
      const target = { resource, namespace: own, subresource: '' as const };
      await writes.delete(target, name, { ...options, preconditions }).catch((error) => {
        if (!(error instanceof ApiError) || (error.status.code !== 404 && error.status.code !== 409)) throw error;
      });
    }),
  );
  await sendPieces(request, listPieces(presentation, chosen, { resourceVersion: String(store.revision) }));
}

/** Reads the options from the body, or else from the parameters. */
async function deleteOptions(request: Request): Promise<DeleteOptions> {
  const text = await readText(request);
  if (text !== '') contentType(request, JSON_TYPES);
  const body = text === '' ? {} : ((await parseJson(text, 'error decoding DeleteOptions')) as JsonObject);
  if (!isObject(body)) throw badRequest('error decoding DeleteOptions: not an object');
  const { query } = request;
  const dryRun = [...query.getAll('dryRun'), ...((body.dryRun as string[] | undefined) ?? [])];
  const orphans = body.orphanDependents ?? query.get('orphanDependents');
  const policy =
    body.propagationPolicy ?? query.get('propagationPolicy') ?? (String(orphans) === 'true' ? 'Orphan' : undefined);
  if (policy && policy !== 'Background' && policy !== 'Foreground' && policy !== 'Orphan') {
    throw unsupported(
      'DeleteOptions',
      'propagationPolicy',
      JSON.stringify(policy),
      '"Background", "Foreground", "Orphan"',
    );
  }
  return {
    dryRun: readDryRun(dryRun, 'DeleteOptions'),
    propagationPolicy: policy as DeleteOptions['propagationPolicy'],
    preconditions: body.preconditions as DeleteOptions['preconditions'],
  };
}
