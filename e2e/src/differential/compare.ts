/** Two answers to one request: in which of the things that clients read they differ. */

export interface Told {
  status: number;
  headers: Record<string, string | undefined>;
  body: unknown;
}

/**
 * Headers that clients act upon. Lengths, dates and headers for caches or proxies follow from these, or are each
 * server's own.
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
  /** `status`, the name of a header, or where in the body: `body`, `body.code`, `body[].id`. */
  at: string;
  ours: unknown;
  lite: unknown;
}

export function differencesOf(ours: Told, lite: Told): Difference[] {
  const found: Difference[] = [];
  if (ours.status !== lite.status) found.push({ at: 'status', ours: ours.status, lite: lite.status });
  for (const name of HEADERS) {
    const [left, right] = [ours.headers[name], lite.headers[name]];
    if (spelled(name, left) !== spelled(name, right)) found.push({ at: name, ours: left, lite: right });
  }
  return [...found, ...differingParts('body', ours.body, lite.body)];
}

/**
 * Case and spaces, as of `application/json; charset=utf-8`, mean nothing, and an address is the same however much of it
 * is escaped.
 */
function spelled(name: string, value: string | undefined): string | undefined {
  if (name === 'content-location') return value && decodeURIComponent(value.replaceAll('+', ' '));
  return value?.toLowerCase().replaceAll(/;\s+/g, ';');
}

/** Each place once, however many elements of a list differ there. */
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
