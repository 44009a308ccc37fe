import type { JsonObject, JsonSchema } from '../schema/json-schema.js';

export interface UpdateRequest {
  /** What is stored, or undefined on create. */
  before: JsonObject | undefined;
  /** What is about to be stored (already defaulted and pruned); its managedFields are what the client sent. */
  after: JsonObject;
  manager: string;
  apiVersion: string;
  subresource: string;
  schema: JsonSchema | undefined;
  now: Date;
}

/** `after` with managedFields that say what `manager` changed by a create, update or patch. Never changes its inputs. */
export declare function trackUpdate(request: UpdateRequest): JsonObject;
