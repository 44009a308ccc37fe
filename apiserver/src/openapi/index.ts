/**
 * OpenAPI v3 of the served resources, sufficient for kubectl's explain, field validation and apply. In: the resources
 * with their schemas. Out: plain JSON documents.
 */

export { builtinResources } from './builtin-kinds.js';
export { openApiDocuments, type ServedResource } from './served.js';
