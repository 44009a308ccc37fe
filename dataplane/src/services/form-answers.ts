/**
 * Responses to a posted form: a redirect within the site, a short page, or JSON. Text of a visitor is escaped, and no
 * page has a script.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';

export interface FormAnswer {
  status: number;
  title: string;
  text: string;
  /** Name of the field that the text is about, which is the visitor's text. */
  field?: string | undefined;
  headers?: OutgoingHttpHeaders;
}

/** Response if the entry can't be stored now. `seconds` is the value of Retry-After. */
export const unavailable = (seconds: number): FormAnswer => ({
  status: 503,
  title: 'The form was not received',
  text: 'Forms can not be stored now. Send the form again in a moment.',
  headers: { 'Retry-After': String(seconds) },
});

const POLICY = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** True for a program, which wants JSON. Browsers accept HTML first. */
export const wantsJson = ({ headers: { accept = '' } }: IncomingMessage): boolean =>
  /\bapplication\/json\b/i.test(accept) && !/\btext\/html\b/i.test(accept);

export function answerForm(incoming: IncomingMessage, outgoing: ServerResponse, answer: FormAnswer): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  const isJson = wantsJson(incoming);
  const text = isJson ? jsonOf(answer) : pageOf(answer);
  outgoing
    .writeHead(answer.status, {
      'Content-Type': isJson ? 'application/json; charset=utf-8' : 'text/html; charset=utf-8',
      'Content-Length': Buffer.byteLength(text),
      'Cache-Control': 'no-store',
      'Content-Security-Policy': POLICY,
      'Referrer-Policy': 'no-referrer',
      'X-Content-Type-Options': 'nosniff',
      Vary: 'Accept',
      ...answer.headers,
    })
    .end(text);
}

/** `location` is a path of the site. */
export function redirectForm(outgoing: ServerResponse, location: string): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  outgoing.writeHead(303, { Location: location, 'Content-Length': 0, 'Cache-Control': 'no-store' }).end();
}

function jsonOf({ status, text, field }: FormAnswer): string {
  if (status < 300) return JSON.stringify({ ok: true });
  return JSON.stringify({ ok: false, message: text, ...(field === undefined ? {} : { field }) });
}

const pageOf = ({ title, text, field }: FormAnswer): string =>
  '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">' +
  `<title>${escaped(title)}</title><h1>${escaped(title)}</h1><p>${escaped(text)}</p>` +
  `${field === undefined ? '' : `<p>Field: <code>${escaped(field.slice(0, 100))}</code></p>`}` +
  '<p><a href="/">Back to the site</a></p></html>\n';

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (text: string): string => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] as string);

/** Longest accepted `_next`. */
const LONGEST = 2_048;

/**
 * Returns the path to which `_next` leads on this site; undefined if it could lead elsewhere. Browsers read a backslash
 * as a slash, drop tabs and line breaks, and read two slashes as a host.
 */
export function nextPath(next: unknown, siteUrl: string): string | undefined {
  if (typeof next !== 'string' || next.length > LONGEST || !next.startsWith('/') || next.startsWith('//')) {
    return undefined;
  }
  if (/[\\\p{Cc}]/u.test(next) || !URL.canParse(next, siteUrl)) return undefined;
  const { origin, pathname, search, hash } = new URL(next, siteUrl);
  // Segments such as `/.` are removed, so that two slashes can come together.
  if (origin !== new URL(siteUrl).origin || pathname.startsWith('//')) return undefined;
  return `${pathname}${search}${hash}`;
}
