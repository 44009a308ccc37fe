/**
 * The errors that a client may see. Each is a Status with the real server's message. Any module throws them, and
 * `http/` sends them.
 */
import type { JsonObject } from './schema/json-schema.js';

export interface ResourceName {
  group: string;
  plural: string;
}

interface Details {
  name?: string;
  group?: string;
  kind?: string;
  uid?: string;
  retryAfterSeconds?: number;
  causes?: { reason?: string; message: string; field?: string }[];
}

export class ApiError extends Error {
  constructor(readonly status: { message: string; code: number }) {
    super(status.message);
  }
}

export function failure(code: number, reason: string, message: string, details?: Details): ApiError {
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message };
  return new ApiError({ ...status, ...(reason && { reason }), ...(details && { details }), code } as JsonObject & {
    message: string;
    code: number;
  });
}

const qualified = ({ group, plural }: ResourceName) => (group === '' ? plural : `${plural}.${group}`);
const detailsOf = ({ group, plural }: ResourceName, name: string): Details => ({
  ...(name && { name }),
  ...(group && { group }),
  kind: plural,
});

export const badRequest = (message: string) => failure(400, 'BadRequest', message);
export const unauthorized = () => failure(401, 'Unauthorized', 'Unauthorized');
export const notFound = (resource: ResourceName, name: string) =>
  failure(404, 'NotFound', `${qualified(resource)} ${JSON.stringify(name)} not found`, detailsOf(resource, name));
export const noSuchResource = () => failure(404, 'NotFound', 'the server could not find the requested resource', {});
export const methodNotAllowed = () =>
  failure(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource', {});
export const alreadyExists = (resource: ResourceName, name: string) =>
  failure(
    409,
    'AlreadyExists',
    `${qualified(resource)} ${JSON.stringify(name)} already exists`,
    detailsOf(resource, name),
  );
export const conflict = (resource: ResourceName, name: string, why: string) =>
  failure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(resource)} ${JSON.stringify(name)}: ${why}`,
    detailsOf(resource, name),
  );
export const MODIFIED = 'the object has been modified; please apply your changes to the latest version and try again';
export const forbidden = (resource: ResourceName, name: string, why: string, causes?: Details['causes']) =>
  failure(403, 'Forbidden', `${qualified(resource)} ${JSON.stringify(name)} is forbidden: ${why}`, {
    ...detailsOf(resource, name),
    ...(causes && { causes }),
  });
export const expired = (message: string) => failure(410, 'Expired', message);
export const unavailable = (message: string) => failure(503, 'ServiceUnavailable', message, { retryAfterSeconds: 1 });
