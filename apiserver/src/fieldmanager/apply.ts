import type { Status } from '../schema/field-error.js';
import type { JsonObject, JsonSchema } from '../schema/json-schema.js';

export interface ApplyRequest {
  /** What is stored, or undefined when the apply creates the object. */
  live: JsonObject | undefined;
  applied: JsonObject;
  manager: string;
  force: boolean;
  /** Of the request, e.g. `v1` or `slipway.dev/v1alpha1`. */
  apiVersion: string;
  /** '' for the object itself, or `status`. */
  subresource: string;
  schema: JsonSchema | undefined;
  now: Date;
}

export type ApplyResult = { object: JsonObject; conflicts?: undefined } | { object?: undefined; conflicts: Status };

/** Merges `applied` into `live` and moves ownership. Equal to `live` when nothing changed. Never changes its inputs. */
export declare function applyServerSide(request: ApplyRequest): ApplyResult;
