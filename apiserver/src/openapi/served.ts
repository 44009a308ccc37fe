import type { JsonObject, JsonSchema } from '../schema/json-schema.js';
import { builtinResources } from './builtin-kinds.js';
import { type DocumentedResource, openApiV3Document, openApiV3Index } from './documents.js';

/** A served resource. Built-in kinds are described in this folder, and custom ones by their own schema. */
export type ServedResource = Omit<DocumentedResource, 'schema'> & { custom: boolean; schema: { source: JsonSchema } };

/** Returns all documents of `/openapi/v3` for the served resources, by path. */
export function openApiDocuments(resources: readonly ServedResource[]): Map<string, JsonObject> {
  const versions = Map.groupBy(resources, ({ group, version }) => pathOf(group, version));
  const documents = new Map(
    [...versions].map(([path, members]) => [
      path,
      openApiV3Document(members[0] as ServedResource, members.map(documented)),
    ]),
  );
  const answers = new Map([...documents].map(([path, document]) => [`/openapi/v3/${path}`, document]));
  return answers.set('/openapi/v3', openApiV3Index(documents));
}

const pathOf = (group: string, version: string) => (group === '' ? `api/${version}` : `apis/${group}/${version}`);

function documented(resource: ServedResource): DocumentedResource {
  const described = builtinResources.find(
    ({ group, version, kind }) => group === resource.group && version === resource.version && kind === resource.kind,
  );
  return described && !resource.custom ? described : { ...resource, schema: resource.schema.source };
}
