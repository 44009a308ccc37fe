import type { JsonObject } from '../schema/json-schema.js';
import type { DocumentedResource } from './documents.js';
import { DELETE_OPTIONS, PATCH, STATUS } from './meta-schemas.js';

/**
 * Returns the paths of one resource. From them kubectl derives the parameters that a server supports, and the kind of a
 * URL.
 */
export function pathsOf(resource: DocumentedResource, schemaName: string, listName: string): JsonObject {
  const { group, version, plural, namespaced, subresources } = resource;
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  const collection = `${root}${namespaced ? '/namespaces/{namespace}' : ''}/${plural}`;
  const item = `${collection}/{name}`;
  const make = operations(resource, schemaName, listName);
  return {
    ...(namespaced ? { [`${root}/${plural}`]: { get: make.list(), parameters: LIST_PARAMETERS } } : {}),
    [collection]: {
      get: make.list(),
      post: make.write('create', 'post', [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]),
      delete: make.deleteMany(),
      parameters: placeParameters(namespaced, false),
    },
    [item]: {
      get: make.read(),
      put: make.write('replace', 'put', [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]),
      patch: make.patch(),
      delete: make.deleteOne(),
      parameters: placeParameters(namespaced, true),
    },
    ...Object.fromEntries(
      subresources.map((subresource) => [
        `${item}/${subresource}`,
        {
          get: make.read(),
          put: make.write('replace', 'put', [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION]),
          patch: make.patch(),
          parameters: placeParameters(namespaced, true),
        },
      ]),
    ),
  };
}

interface Parameter {
  name: string;
  in: 'query' | 'path';
  description: string;
  required?: true;
  schema: { type: string; uniqueItems: true };
}

const query = (name: string, description: string, type = 'string'): Parameter => ({
  name,
  in: 'query',
  description,
  schema: { type, uniqueItems: true },
});

const DRY_RUN = query('dryRun', 'All: the request is checked and nothing is stored.');
const FIELD_MANAGER = query('fieldManager', 'The manager for metadata.managedFields. Required for an apply.');
const FIELD_VALIDATION = query(
  'fieldValidation',
  'The handling of unknown or repeated fields: Ignore, Warn (the default) or Strict.',
);
const FORCE = query('force', 'True to take over fields that other managers own.', 'boolean');
const PRETTY = query('pretty', 'Indents the response.');

const LIST_PARAMETERS: readonly Parameter[] = [
  PRETTY,
  query('labelSelector', 'Selects objects by labels.'),
  query('fieldSelector', 'Selects objects by fields.'),
  query('limit', 'The most objects of a page.', 'integer'),
  query('continue', 'The token of the next page, from the previous response.'),
  query('resourceVersion', 'The minimum version of the response. A watch starts after it.'),
  query('resourceVersionMatch', 'The meaning of resourceVersion: Exact or NotOlderThan.'),
  query('watch', 'True to watch for changes.', 'boolean'),
  query('allowWatchBookmarks', 'True for bookmarks, which report the progress of the watch.', 'boolean'),
  query('sendInitialEvents', 'True to begin the watch with all existing objects.', 'boolean'),
  query('timeoutSeconds', 'Seconds until the watch ends.', 'integer'),
];

const inPath = (name: string, description: string): Parameter => ({
  name,
  in: 'path',
  description,
  required: true,
  schema: { type: 'string', uniqueItems: true },
});

const placeParameters = (namespaced: boolean, named: boolean): Parameter[] => [
  ...(named ? [inPath('name', 'The name of the object.')] : []),
  ...(namespaced ? [inPath('namespace', 'The namespace of the object.')] : []),
  PRETTY,
];

const content = (schemaName: string, ...types: string[]) =>
  Object.fromEntries(types.map((type) => [type, { schema: { $ref: `#/components/schemas/${schemaName}` } }]));

const answers = (schemaName: string, ...codes: string[]) => ({
  ...Object.fromEntries(
    codes.map((code) => [
      code,
      { description: code === '200' ? 'OK' : 'Created', content: content(schemaName, 'application/json') },
    ]),
  ),
  '401': { description: 'Unauthorized' },
});

function operations({ group, version, kind }: DocumentedResource, schemaName: string, listName: string) {
  const gvk = { group, version, kind };
  const operation = (action: string, description: string, more: JsonObject): JsonObject => ({
    description,
    ...more,
    'x-kubernetes-action': action,
    'x-kubernetes-group-version-kind': gvk,
  });
  const body = (name: string, ...types: string[]) => ({ content: content(name, ...types), required: true });
  return {
    list: () =>
      operation('list', `Lists or watches objects of kind ${kind}.`, {
        parameters: LIST_PARAMETERS,
        responses: answers(listName, '200'),
      }),
    read: () => operation('get', `Reads one ${kind}.`, { responses: answers(schemaName, '200') }),
    write: (verb: string, action: string, parameters: Parameter[]) =>
      operation(action, `${verb === 'create' ? 'Makes' : 'Replaces'} one ${kind}.`, {
        parameters,
        requestBody: body(schemaName, 'application/json'),
        responses: answers(schemaName, '200', '201'),
      }),
    patch: () =>
      operation('patch', `Changes parts of one ${kind}.`, {
        parameters: [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE],
        requestBody: body(
          PATCH,
          'application/apply-patch+yaml',
          'application/json-patch+json',
          'application/merge-patch+json',
        ),
        responses: answers(schemaName, '200', '201'),
      }),
    deleteOne: () =>
      operation('delete', `Deletes one ${kind}.`, {
        parameters: [DRY_RUN],
        requestBody: { content: content(DELETE_OPTIONS, 'application/json') },
        responses: answers(STATUS, '200', '202'),
      }),
    deleteMany: () =>
      operation('deletecollection', `Deletes objects of kind ${kind}.`, {
        parameters: [DRY_RUN, ...LIST_PARAMETERS],
        requestBody: { content: content(DELETE_OPTIONS, 'application/json') },
        responses: answers(STATUS, '200'),
      }),
  };
}
