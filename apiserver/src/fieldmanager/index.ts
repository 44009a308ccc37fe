/**
 * Field management: `metadata.managedFields`, and server-side apply based on it. In: objects before and after, and the
 * schema that defines how lists merge. Out: new objects, or the conflicts. No I/O.
 */
export { type ApplyRequest, type ApplyResult, applyServerSide } from './apply.js';
export { builtinSchema } from './builtin-schemas.js';
export { trackUpdate, type UpdateRequest } from './update.js';
