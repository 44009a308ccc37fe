/** Parses the project and service of a request from its address: `/p/<ref>/…`, or Host `<ref>.<domain>`. */
export interface ProjectAddress {
  ref: string;
  /** Path within the project, with the query, such as `/rest/v1/todos?id=eq.1`. */
  target: string;
  /** True if only this project uses the host name. */
  ownOrigin: boolean;
}

export interface ServiceAddress {
  service: string;
  /** Path behind the service's prefix, with a leading slash. */
  path: string;
  /** Query without `?`. */
  query: string;
}

const PATH_PREFIX = '/p/';

/**
 * Returns undefined for a request to the platform itself. `domain` is the public URL's host name with a leading dot.
 */
export function projectAddress(url: string, host: string | undefined, domain: string): ProjectAddress | undefined {
  const subdomain = host === undefined ? undefined : subdomainOf(host, domain);
  if (subdomain !== undefined) return { ref: subdomain, target: url, ownOrigin: true };
  return addressByPath(url);
}

/**
 * Returns the address of a request to a program that serves only the project `ref`, at any host name. Its paths begin
 * with the service, or with `/p/<ref>` before it. Returns undefined for a request to the program itself.
 */
export function onlyProjectAddress(url: string, ref: string): ProjectAddress | undefined {
  return addressByPath(url) ?? (serviceAddress(url) && { ref, target: url, ownOrigin: true });
}

function addressByPath(url: string): ProjectAddress | undefined {
  if (!url.startsWith(PATH_PREFIX)) return undefined;
  const end = endOfSegment(url, PATH_PREFIX.length);
  return { ref: url.slice(PATH_PREFIX.length, end), target: url.slice(end), ownOrigin: false };
}

/** Splits `/auth/v1/user?x=1` into auth, `/user` and `x=1`. Returns undefined for an unknown service. */
export function serviceAddress(target: string): ServiceAddress | undefined {
  const version = target.indexOf('/', 1);
  if (version === -1 || !target.startsWith('/v1', version)) return undefined;
  const start = version + 3;
  const next = target.charCodeAt(start);
  if (start < target.length && next !== SLASH && next !== QUESTION_MARK) return undefined;
  const mark = target.indexOf('?', start);
  const end = mark === -1 ? target.length : mark;
  return {
    service: target.slice(1, version),
    path: end === start ? '/' : target.slice(start, end),
    query: mark === -1 ? '' : target.slice(mark + 1),
  };
}

const SLASH = 47;
const QUESTION_MARK = 63;

function subdomainOf(host: string, domain: string): string | undefined {
  const colon = host.lastIndexOf(':');
  const end = colon === -1 ? host.length : colon;
  // A name with a trailing dot is the same name, fully qualified.
  const name = host.slice(0, host[end - 1] === '.' ? end - 1 : end);
  if (name.length <= domain.length) return undefined;
  const lower = name.toLowerCase();
  return lower.endsWith(domain) ? lower.slice(0, -domain.length) : undefined;
}

function endOfSegment(url: string, from: number): number {
  for (let at = from; at < url.length; at++) {
    const code = url.charCodeAt(at);
    if (code === SLASH || code === QUESTION_MARK) return at;
  }
  return url.length;
}
