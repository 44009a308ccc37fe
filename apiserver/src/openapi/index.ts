/**
 * OpenAPI v3 of what is served: enough for kubectl's explain, field validation and apply.
 * In: the served resources with their schemas. Out: plain JSON documents.
 */

export { builtinResources } from './builtin-kinds.js';
export { type DocumentedResource, openApiV3Document, openApiV3Index } from './documents.js';
export { openApiDocuments, type ServedResource } from './served.js';
