/**
 * Decides which response headers of a project reach a browser, by what shares its origin. In: a header's name and
 * value. Out: the value to send, or undefined. Pure. `project-response.ts` applies it to every response of every
 * service.
 */

export type HeaderValue = number | string | readonly string[];

export interface OriginPolicy {
  /** Headers that are added to every response. */
  fixed: readonly (readonly [name: string, value: string])[];
  /** Returns the value to send for a project's header; undefined drops the header. `name` is in lower case. */
  admit(name: string, value: HeaderValue): HeaderValue | undefined;
}

/**
 * Content security policy that gives a project's page an opaque origin: no service worker, cookie, storage or
 * same-origin access. Pages that this page opens inherit the sandbox.
 */
const SANDBOX = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts';

/** Headers that affect more than one response even if the project has its own host name. */
const OF_THE_SITE = new Set([
  // The directive "cookies" of Clear-Site-Data clears the cookies of the whole registrable domain.
  'clear-site-data',
  // A reverse proxy in front (nginx, Apache, Lighttpd, LiteSpeed, Perlbal) would respond with a file or an internal
  // route instead.
  'x-accel-redirect',
  'x-sendfile',
  'x-lighttpd-send-file',
  'x-litespeed-location',
  'x-reproxy-file',
  'x-reproxy-url',
]);

/** Headers that a browser applies to the whole origin. Headers of a single document or response pass unchanged. */
const OF_THE_ORIGIN = new Set([
  ...OF_THE_SITE,
  // State that the browser stores for the origin.
  'set-cookie',
  'set-cookie2',
  'set-login',
  'sec-session-registration',
  'secure-session-registration',
  'shared-storage-write',
  // Widens a service worker's scope to other projects' paths.
  'service-worker-allowed',
  // Transport of the browser to the origin.
  'alt-svc',
  'expect-ct',
  'public-key-pins',
  'public-key-pins-report-only',
  'strict-transport-security',
  // URLs to which the browser reports requests to the origin, with the URLs of other projects.
  'nel',
  'report-to',
  'reporting-endpoints',
  // Changes of later requests to the origin.
  'accept-ch',
  'critical-ch',
  'origin-agent-cluster',
  'speculation-rules',
  'use-as-dictionary',
  // Advertising interfaces, which register for the origin.
  'attribution-reporting-register-os-source',
  'attribution-reporting-register-os-trigger',
  'attribution-reporting-register-source',
  'attribution-reporting-register-trigger',
  'observe-browsing-topics',
]);

/** Policy at `/p/<ref>`, whose origin other projects and the platform's own pages share. */
export const SHARED_ORIGIN: OriginPolicy = {
  fixed: [
    ['Content-Security-Policy', SANDBOX],
    ['X-Content-Type-Options', 'nosniff'],
  ],
  admit(name, value) {
    if (OF_THE_ORIGIN.has(name)) return undefined;
    switch (name) {
      // A browser enforces every policy, so a project's own policy can only be stricter.
      case 'content-security-policy':
        return withSandbox(value);
      case 'x-content-type-options':
        return 'nosniff';
      // A password prompt of the browser would show the platform's address.
      case 'www-authenticate':
        return PROMPTS.test(String(value)) ? undefined : value;
      default:
        return value;
    }
  },
};

/** Policy at `<ref>.<domain>`: the origin is the project's own, but the site may be the platform's. */
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

/** Drops cookies with the attribute Domain, which the browser would send to other hosts of the site. */
function withoutDomain(value: HeaderValue): HeaderValue | undefined {
  const hostOnly = [value].flat().filter((cookie) => !HAS_DOMAIN.test(String(cookie)));
  return hostOnly.length === 0 ? undefined : (hostOnly as string[]);
}

const HAS_DOMAIN = /;\s*domain\s*(=|;|$)/i;
