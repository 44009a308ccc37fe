/** Security headers of responses. In: a path. Out: headers, which depend only on whether the path is a page. */

const OF_EVERY_RESPONSE = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

const DATA = {
  ...OF_EVERY_RESPONSE,
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
};

/**
 * Content security policy of Swagger UI: its scripts are files, its styles are partly inline, and its icons are data
 * URLs.
 */
const DOCUMENT = {
  ...OF_EVERY_RESPONSE,
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data:",
    "font-src 'self' data:",
    "connect-src 'self'",
    "worker-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
};

/** Content security policy of the page at `/`, which has inline styles and no script. */
const START_PAGE = {
  ...OF_EVERY_RESPONSE,
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
};

export function pagePolicy(path: string): Record<string, string> {
  if (path === '/') return START_PAGE;
  return path === '/docs' || path.startsWith('/docs/') ? DOCUMENT : DATA;
}
