/** Security headers of responses. In: a path. Out: headers, constant for documents and for all else. */

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

/** Swagger UI: its scripts are files; its styles are partly inline, and its icons data URLs. */
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

export const pagePolicy = (path: string) => (path === '/docs' || path.startsWith('/docs/') ? DOCUMENT : DATA);
