/**
 * OpenAPI v3 of what is served: enough for kubectl's explain, field validation and apply.
 * In: the served resources with their schemas. Out: plain JSON documents.
 */

export { builtinResources } from './builtin-kinds.js';
export { openApiDocuments, type ServedResource } from './served.js';
