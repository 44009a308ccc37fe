/** Compares two responses to one request in everything that clients read. */

export interface RecordedResponse {
  status: number;
  headers: Record<string, string | undefined>;
  body: unknown;
}

/**
 * Headers that clients use. Lengths, dates and headers for caches or proxies are left out: they depend on the others or
 * on the server.
 */
export const HEADERS = [
  'content-type',
  'content-range',
  'content-location',
  'content-profile',
  'content-disposition',
  'location',
  'preference-applied',
  'range-unit',
  'allow',
  'www-authenticate',
  'proxy-status',
  'accept-ranges',
  'x-made',
  'x-why',
] as const;

export interface Difference {
  /** `status`, the name of a header, or a path in the body: `body`, `body.code`, `body[].id`. */
  at: string;
  ours: unknown;
  lite: unknown;
}

export function differencesOf(ours: RecordedResponse, lite: RecordedResponse): Difference[] {
  const found: Difference[] = [];
  if (ours.status !== lite.status) found.push({ at: 'status', ours: ours.status, lite: lite.status });
  for (const name of HEADERS) {
    const [left, right] = [ours.headers[name], lite.headers[name]];
    if (spelled(name, left) !== spelled(name, right)) found.push({ at: name, ours: left, lite: right });
  }
  return [...found, ...differingParts('body', ours.body, lite.body)];
}

/**
 * Normalises a header. Case and spaces do not matter, as in `application/json; charset=utf-8`, and a URL is the same
 * however much of it is escaped.
 */
function spelled(name: string, value: string | undefined): string | undefined {
  if (name === 'content-location') return value && decodeURIComponent(value.replaceAll('+', ' '));
  return value?.toLowerCase().replaceAll(/;\s+/g, ';');
}

/** Reports each path once, however many elements of a list differ there. */
function differingParts(at: string, ours: unknown, lite: unknown): Difference[] {
  if (Object.is(ours, lite)) return [];
  if (Array.isArray(ours) && Array.isArray(lite) && ours.length === lite.length) {
    const parts = ours.flatMap((item, index) => differingParts(`${at}[]`, item, lite[index]));
    return parts.filter((part, index) => parts.findIndex((other) => other.at === part.at) === index);
  }
  if (!isObject(ours) || !isObject(lite)) return [{ at, ours, lite }];
  const names = [...new Set([...Object.keys(ours), ...Object.keys(lite)])].sort();
  return names.flatMap((name) => differingParts(`${at}.${name}`, ours[name], lite[name]));
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
