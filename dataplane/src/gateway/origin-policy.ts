/**
 * Which response headers of a project reach a browser, by what else lives on the origin. In: a header's name and value.
 * Out: the value to send, or undefined. Pure. Used by `project-response.ts` for every response of every service.
 */

export type HeaderValue = number | string | readonly string[];

export interface OriginPolicy {
  /** Headers on every response. */
  fixed: readonly (readonly [name: string, value: string])[];
  /** The value to send for a header of a project; undefined: the header is dropped. `name` is in lower case. */
  admit(name: string, value: HeaderValue): HeaderValue | undefined;
}

/**
 * A page of a project runs with an opaque origin: no service worker, cookie, storage or same-origin access. A page that
 * it opens inherits the sandbox.
 */
const SANDBOX = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts';

/** Headers that a browser applies to more than the one response, and that no host name of a project's own contains. */
const OF_THE_SITE = new Set([
  // Its directive "cookies" clears those of the whole registrable domain.
  'clear-site-data',
  // A reverse proxy in front (nginx, Apache, Lighttpd, LiteSpeed, Perlbal) would answer with a file or an internal
  // route instead.
  'x-accel-redirect',
  'x-sendfile',
  'x-lighttpd-send-file',
  'x-litespeed-location',
  'x-reproxy-file',
  'x-reproxy-url',
]);

/** Headers that a browser applies to the origin. Headers of one document or response alone are left as they are. */
const OF_THE_ORIGIN = new Set([
  ...OF_THE_SITE,
  // State that the browser keeps for the origin.
  'set-cookie',
  'set-cookie2',
  'set-login',
  'sec-session-registration',
  'secure-session-registration',
  'shared-storage-write',
  // Widens a service worker's scope to other projects' paths.
  'service-worker-allowed',
  // How the browser reaches the origin, or whether it does.
  'alt-svc',
  'expect-ct',
  'public-key-pins',
  'public-key-pins-report-only',
  'strict-transport-security',
  // Where the browser reports requests to the origin, with the URLs of other projects.
  'nel',
  'report-to',
  'reporting-endpoints',
  // What the browser sends or fetches with later requests to the origin.
  'accept-ch',
  'critical-ch',
  'origin-agent-cluster',
  'speculation-rules',
  'use-as-dictionary',
  // Advertising interfaces register in the name of the origin.
  'attribution-reporting-register-os-source',
  'attribution-reporting-register-os-trigger',
  'attribution-reporting-register-source',
  'attribution-reporting-register-trigger',
  'observe-browsing-topics',
]);

/** At `/p/<ref>`: other projects and the platform's own pages have the same origin. */
export const SHARED_ORIGIN: OriginPolicy = {
  fixed: [
    ['Content-Security-Policy', SANDBOX],
    ['X-Content-Type-Options', 'nosniff'],
  ],
  admit(name, value) {
    if (OF_THE_ORIGIN.has(name)) return undefined;
    switch (name) {
      // With several policies a browser enforces each: a project's own may only be stricter.
      case 'content-security-policy':
        return withSandbox(value);
      case 'x-content-type-options':
        return 'nosniff';
      // A password prompt of the browser would name the platform's address.
      case 'www-authenticate':
        return PROMPTS.test(String(value)) ? undefined : value;
      default:
        return value;
    }
  },
};

/** At `<ref>.<domain>`: the origin is the project's own, but the site may be the platform's. */
export const OWN_ORIGIN: OriginPolicy = {
  fixed: [],
  admit(name, value) {
    if (OF_THE_SITE.has(name)) return undefined;
    return name === 'set-cookie' || name === 'set-cookie2' ? withoutDomain(value) : value;
  },
};

const PROMPTS = /\b(basic|digest|negotiate|ntlm)\b/i;

function withSandbox(value: HeaderValue): HeaderValue {
  const own = [value].flat().map(String);
  return own.includes(SANDBOX) ? own : [...own, SANDBOX];
}

/** A cookie with the attribute Domain would be sent to other hosts of the site. */
function withoutDomain(value: HeaderValue): HeaderValue | undefined {
  const kept = [value].flat().filter((cookie) => !HAS_DOMAIN.test(String(cookie)));
  return kept.length === 0 ? undefined : (kept as string[]);
}

const HAS_DOMAIN = /;\s*domain\s*(=|;|$)/i;
