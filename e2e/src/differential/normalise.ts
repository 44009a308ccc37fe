/** Replaces values that differ between two servers: ids, times, tokens. The replacement names the value's format. */
import type { Service } from './case.js';

/** Returns a comparable body. A table's rows are the same on both sides, so REST's bodies stay unchanged. */
export const alike = (service: Service, body: unknown): unknown => (service === 'rest' ? body : replaced(body));

const FORMS: [RegExp, string][] = [
  [/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i, '<uuid>'],
  [/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)$/, '<time>'],
  [/^[\w-]+\.[\w-]+\.[\w-]+$/, '<jwt>'],
];

/** Members that have a new value in each response, in any format. */
const MADE_UP: Record<string, string> = {
  refresh_token: '<refresh token>',
  expires_at: '<seconds>',
  error_id: '<id>',
  eTag: '<etag>',
};

function replaced(value: unknown, name = ''): unknown {
  if (value !== null && value !== undefined && MADE_UP[name]) return MADE_UP[name];
  if (typeof value === 'string') return FORMS.find(([form]) => form.test(value))?.[1] ?? value;
  if (Array.isArray(value)) return value.map((item) => replaced(item));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, replaced(member, key)]));
}
