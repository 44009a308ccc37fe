/**
 * Lists the differences, and which side is right according to upstream's documentation, or to upstream's code where the
 * documentation does not say. Each verdict selects its differences. docs/compatibility/lite.md is generated from the
 * verdicts and the cases in which their differences occurred.
 */
import type { Difference } from './compare.js';
import type { Outcome } from './run.js';

export interface Verdict {
  what: string;
  ours: string;
  lite: string;
  /** 'both': upstream leaves the choice open, or its documentation is true for both. */
  right: 'ours' | 'lite' | 'both';
  /** A link to upstream's documentation or code. */
  source: string;
  covers(difference: Difference, outcome: Outcome): boolean;
}

const POSTGREST = 'https://docs.postgrest.org/en/latest/references';
const TABLES = `${POSTGREST}/api/tables_views.html`;
const PREFERENCES = `${POSTGREST}/api/preferences.html`;
const FUNCTIONS = `${POSTGREST}/api/functions.html`;
const EMBEDDING = `${POSTGREST}/api/resource_embedding.html`;
const REPRESENTATION = `${POSTGREST}/api/resource_representation.html`;
const ERRORS = `${POSTGREST}/errors.html`;
const AUTHENTICATION = `${POSTGREST}/auth.html`;
const ERROR_SOURCE = 'https://github.com/PostgREST/postgrest/blob/main/src/PostgREST/Error.hs';
const RESPONSE_SOURCE = 'https://github.com/PostgREST/postgrest/blob/main/src/PostgREST/Response.hs';
const AUTH_ERRORS = 'https://supabase.com/docs/guides/auth/debugging/error-codes';
const AUTH_SOURCE = 'https://github.com/supabase/auth/tree/master/internal/api';
const STORAGE_ERRORS = 'https://supabase.com/docs/guides/storage/debugging/error-codes';
const STORAGE_SOURCE = 'https://github.com/supabase/storage/tree/master/src/http/routes';

/** True for cases whose name contains one of `parts`. */
const named = ({ case: { service, name } }: Outcome, ...parts: string[]) =>
  parts.some((part) => `${service} ${name}`.includes(part));
/** `body` matches the whole body and every path in it. */
const at = ({ at: place }: Difference, ...places: string[]) =>
  places.some((each) => place === each || place.startsWith(`${each}.`) || place.startsWith(`${each}[`));
const of = (service: string, { case: each }: Outcome) => each.service === service;
const ANSWER = ['status', 'body', 'content-type', 'content-range', 'content-location', 'preference-applied', 'rows'];

export const VERDICTS: Record<string, Verdict> = {
  'proxy-status': {
    what: '`Proxy-Status` of an error',
    ours: '`PostgREST; error=<code>`',
    lite: 'none',
    right: 'ours',
    source: 'https://github.com/PostgREST/postgrest/pull/3955',
    covers: (difference, outcome) => of('rest', outcome) && at(difference, 'proxy-status') && !difference.lite,
  },
  'type-of-nothing': {
    what: 'Content-Type of a response without a body',
    ours: 'none',
    lite: 'text or JSON',
    right: 'ours',
    source: RESPONSE_SOURCE,
    covers: (difference, { ours, lite }) =>
      at(difference, 'content-type') && !difference.ours && ours.body === '' && lite.body === '',
  },
  challenge: {
    what: '`WWW-Authenticate` of a 401',
    ours: '`Bearer`, and the error of a bad token',
    lite: 'none',
    right: 'ours',
    source: AUTHENTICATION,
    covers: (difference) => at(difference, 'www-authenticate') && !difference.lite,
  },
  'place-of-content': {
    what: '`Content-Location` of a single object, and of a table without a query',
    ours: 'the table and its query',
    lite: 'none',
    right: 'ours',
    source: RESPONSE_SOURCE,
    covers: (difference, { lite }) => at(difference, 'content-location') && !difference.lite && lite.status < 300,
  },
  hints: {
    what: 'Hints for an unknown name',
    ours: 'a table or function if three quarters match; an embed or parameters if a third matches',
    lite: 'also less similar tables and functions; none for embeds and parameters',
    right: 'ours',
    source: ERROR_SOURCE,
    covers: (difference, { ours, lite }) =>
      at(difference, 'body.hint') &&
      /^PGRST2/.test(String(codeOf(ours.body))) &&
      codeOf(ours.body) === codeOf(lite.body),
  },
  'foreign-token': {
    what: 'Hint of a token that another secret signed',
    ours: 'the token is not of this project, because keys of two projects are easily confused',
    lite: 'none, like PostgREST, which has one project',
    right: 'both',
    source: ERROR_SOURCE,
    covers: (difference, { ours }) =>
      at(difference, 'body.hint') && !difference.lite && codeOf(ours.body) === 'PGRST301',
  },
  'accepted-types': {
    what: 'Hint of a body whose Content-Type is not accepted',
    ours: 'the accepted types',
    lite: 'none, like PostgREST',
    right: 'both',
    source: ERRORS,
    covers: (difference, { ours }) =>
      at(difference, 'body.hint') && !difference.lite && codeOf(ours.body) === 'PGRST102',
  },
  'words-of-grammar': {
    what: 'Expected token and column in the message and details of a syntax error',
    ours: 'like PostgREST, as far as tested',
    lite: 'its own',
    right: 'ours',
    source: ERRORS,
    covers: (difference, { ours, lite }) =>
      at(difference, 'body.message', 'body.details') &&
      codeOf(ours.body) === 'PGRST100' &&
      codeOf(lite.body) === 'PGRST100',
  },
  'json-of-postgres': {
    what: 'Times, numeric, bytea and NaN in JSON',
    ours: 'as Postgres writes JSON: `2021-03-04T05:06:07+00:00`, `9.50`, `"\\\\xdeadbeef"`, `"NaN"`',
    lite: 'as its driver reads them: `2021-03-04 05:06:07+00`, `"9.50"`, a Buffer’s members, `null`',
    right: 'ours',
    source: REPRESENTATION,
    covers: (difference, { ours, lite, case: { name } }) =>
      ours.status === lite.status &&
      /^body(\[\])?\.(added|price|stamp|bytes|n|f)$/.test(difference.at) &&
      !name.includes('(another time zone)'),
  },
  'like-any': {
    what: '`like` and `ilike` with `(any)` and `(all)`',
    ours: '`*` is a wildcard',
    lite: '`*` is itself, so nothing is found',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) => named(outcome, 'like(any)', 'like(all)') && at(difference, ...ANSWER),
  },
  'values-by-looks': {
    what: 'Values of filters',
    ours: 'text that Postgres parses as the column’s type',
    lite:
      'converted to a number or an object if they look like one: a bigint loses digits, `{}` is an object, a ' +
      'backslash is lost; quotes and spaces around text are dropped',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) =>
      named(outcome, 'tags=eq.{}', 'big=eq.9007199254740993', 'bytes=eq.', 'title=eq."One"', 'title=eq.One%20') &&
      at(difference, ...ANSWER),
  },
  'quotes-in-trees': {
    what: 'Escaped quotes in `or=(…)`',
    ours: 'part of the value',
    lite: 'not found',
    right: 'ours',
    source: 'https://docs.postgrest.org/en/v12/references/api/url_grammar.html#reserved-characters',
    covers: (difference, outcome) => named(outcome, 'or=(title.eq."Three') && at(difference, ...ANSWER),
  },
  'half-filters': {
    what: 'Incomplete filters: `eq`, `or=id.eq.1`, `meta->`',
    ours: 'PGRST100',
    lite: 'an empty value, or Postgres’ error for the resulting SQL',
    right: 'ours',
    source: ERRORS,
    covers: (difference, outcome) =>
      ['id=eq', 'or=id.eq.1', 'or=(id.eq)', 'meta->=eq.1'].some((end) => outcome.case.name.endsWith(`&${end}`)) &&
      at(difference, ...ANSWER),
  },
  'quoted-order': {
    what: 'Quoted names in `order`',
    ours: 'work',
    lite: 'PGRST100',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) => named(outcome, 'order="with.dot"') && at(difference, ...ANSWER),
  },
  'embeds-at-the-top': {
    what: 'Order by a related column together with an own column; an embed’s null filter inside `or`',
    ours: 'work',
    lite: 'an SQL error of Postgres',
    right: 'ours',
    source: EMBEDDING,
    covers: (difference, outcome) =>
      named(outcome, 'order=authors(name)', 'order=a(name)', 'or=(authors.is.null') && at(difference, ...ANSWER),
  },
  casts: {
    what: 'The cast of a JSON member to text',
    ours: 'text',
    lite: 'left as it was',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) => named(outcome, 'meta->rating::text') && at(difference, 'body'),
  },
  openapi: {
    what: 'The OpenAPI description at the root',
    ours: 'every table and function, as `application/openapi+json`',
    lite: 'a document without them, as `application/json`',
    right: 'ours',
    source: `${POSTGREST}/api/openapi.html`,
    covers: (difference, outcome) => named(outcome, 'rest GET / (the root)') && at(difference, 'body', 'content-type'),
  },
  'offset-at-the-end': {
    what: 'An offset equal to the count',
    ours: '206 and no row',
    lite: '416',
    right: 'ours',
    source: 'https://github.com/PostgREST/postgrest/blob/main/src/PostgREST/RangeQuery.hs',
    covers: (difference, outcome) => named(outcome, 'offset=4 (counted)') && at(difference, ...ANSWER),
  },
  'applied-preferences': {
    what: '`Preference-Applied`',
    ours:
      'every applied preference, including `handling`, `timezone` and `max-affected`; none that is unknown or, ' +
      'like `tx`, not allowed',
    lite: 'without these three, but with `count=sometimes` and `tx=rollback`, which are not applied',
    right: 'ours',
    source: PREFERENCES,
    covers: (difference, { ours, lite, case: { service } }) =>
      service === 'rest' && ours.status === lite.status && at(difference, 'preference-applied'),
  },
  timezone: {
    what: '`Prefer: timezone`',
    ours: 'times are in that time zone',
    lite: 'no effect',
    right: 'ours',
    source: PREFERENCES,
    covers: (difference, outcome) => named(outcome, '(another time zone)') && at(difference, 'body'),
  },
  csv: {
    what: 'CSV',
    ours:
      'arrays and JSON as Postgres writes them, a line end for no rows; `NULL` is null, and lines of unequal ' +
      'length are rejected',
    lite: 'arrays as JSON, nothing for no rows; `NULL` is text, and missing values are null',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) =>
      named(outcome, '(as text/csv)', '(CSV)', '(CSV of unequal lines)') && at(difference, ...ANSWER),
  },
  'first-of-accept': {
    what: '`Accept: application/json, text/csv`',
    ours: 'JSON, which is first',
    lite: 'CSV',
    right: 'ours',
    source: REPRESENTATION,
    covers: (difference, outcome) => named(outcome, '(as application/json, text/csv)') && at(difference, ...ANSWER),
  },
  'media-types': {
    what: '`Accept: application/octet-stream` of a table',
    ours: '406, unless the database has a handler',
    lite: 'JSON with that content type',
    right: 'ours',
    source: REPRESENTATION,
    covers: (difference, outcome) => named(outcome, '(as application/octet-stream)') && at(difference, ...ANSWER),
  },
  'name-of-a-plan': {
    what: 'The plan’s media type in the message of a 406',
    ours: 'as the client wrote it',
    lite: 'spelled out with its defaults',
    right: 'lite',
    source: 'https://github.com/PostgREST/postgrest/blob/main/src/PostgREST/MediaType.hs',
    covers: (difference, outcome) =>
      named(outcome, '(as application/vnd.pgrst.plan)') && at(difference, 'body.message'),
  },
  grants: {
    what: 'Rights that the owner revoked from `anon` and `authenticated`',
    ours: 'refused by Postgres',
    lite: 'granted again at its start',
    right: 'ours',
    source: AUTHENTICATION,
    covers: (difference, outcome) => named(outcome, ' /hidden') && at(difference, ...ANSWER, 'rows'),
  },
  'no-token': {
    what: 'An invalid bearer token',
    ours: '401, PGRST301',
    lite: 'treated as no token',
    right: 'ours',
    source: ERRORS,
    covers: (difference, outcome) =>
      named(outcome, 'rest GET /books?select=id (an invalid token)') && at(difference, ...ANSWER),
  },
  'unknown-role': {
    what: 'A token of an unknown role',
    ours: '42501 for any role except the three, so that the roles of the server stay hidden',
    lite: '22023, like Postgres',
    right: 'lite',
    source: ERROR_SOURCE,
    covers: (difference, outcome) => named(outcome, '(a token of an unknown role)') && at(difference, ...ANSWER),
  },
  location: {
    what: '`Location` of a write',
    ours: 'of inserts with `return=headers-only`',
    lite: 'of updates and deletes, and with `return=representation`, too',
    right: 'ours',
    source: TABLES,
    covers: (difference, { case: { service } }) => service === 'rest' && at(difference, 'location') && !difference.ours,
  },
  'odd-bodies': {
    what: 'Bodies of `{}`, `[]` or a number',
    ours: 'a row of defaults, no row, PGRST102',
    lite: 'an SQL error of Postgres',
    right: 'ours',
    source: TABLES,
    covers: (difference, { case: { service }, lite }) =>
      service === 'rest' && codeOf(lite.body) === '42601' && at(difference, ...ANSWER),
  },
  'missing-values': {
    what: '`missing=default` with `columns=`',
    ours: 'missing columns get their default with it, and null without it',
    lite: 'the other way round',
    right: 'ours',
    source: PREFERENCES,
    covers: (difference, outcome) =>
      named(outcome, 'missing=default', 'missing=null') && at(difference, 'body', 'rows'),
  },
  'errors-of-postgres': {
    what: 'Errors of check constraints and of `raise`',
    ours: '400 with Postgres’ code, message, details and hint',
    lite: '500, SUP',
    right: 'ours',
    source: ERRORS,
    covers: (difference, { lite }) => codeOf(lite.body) === 'SUP' && at(difference, ...ANSWER),
  },
  cardinality: {
    what: 'Status of 21000',
    ours: '500',
    lite: '400',
    right: 'ours',
    source: ERROR_SOURCE,
    covers: (difference, { ours }) => codeOf(ours.body) === '21000' && at(difference, 'status'),
  },
  'all-or-nothing': {
    what: 'A write with several rows, when a single object is requested',
    ours: 'nothing is written',
    lite: 'the rows are written',
    right: 'ours',
    source: REPRESENTATION,
    covers: (difference, { ours }) => ours.status === 406 && at(difference, 'rows'),
  },
  'numbers-written': {
    what: 'Large numbers in bodies',
    ours: 'to the last digit',
    lite: 'as JavaScript’s',
    right: 'ours',
    source: TABLES,
    covers: (difference, outcome) => named(outcome, 'POST /kinds') && at(difference, 'rows'),
  },
  'range-of-a-write': {
    what: '`Content-Range` of PUT, and of a counted PATCH',
    ours: 'none, and `0-0/1`',
    lite: '`*/*`, and `*/1`',
    right: 'ours',
    source: RESPONSE_SOURCE,
    covers: (difference, { ours, lite, case: { method } }) =>
      ['PUT', 'PATCH'].includes(method) && ours.status === lite.status && at(difference, 'content-range'),
  },
  methods: {
    what: 'Unsupported methods of a path',
    ours: '405, PGRST117',
    lite: '404 at the root; treated as GET at a table',
    right: 'ours',
    source: ERRORS,
    covers: (difference, outcome) =>
      ['POST /', 'PROPFIND /labels'].includes(outcome.case.name) && at(difference, ...ANSWER),
  },
  'head-of-a-function': {
    what: 'HEAD of a function',
    ours: 'called as by GET',
    lite: '400',
    right: 'ours',
    source: FUNCTIONS,
    covers: (difference, outcome) => named(outcome, 'HEAD /rpc/') && at(difference, ...ANSWER),
  },
  'json-functions': {
    what: 'A function that returns json',
    ours: 'that JSON',
    lite: 'a string with the JSON',
    right: 'ours',
    source: FUNCTIONS,
    covers: (difference, outcome) => named(outcome, '/rpc/whole') && at(difference, 'body'),
  },
  'times-of-users': {
    what: 'Times of users, identities and buckets',
    ours: 'RFC 3339',
    lite: 'as Postgres writes them; `confirmed_at` is left out',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/auth-signup',
    covers: (difference, outcome) => !of('rest', outcome) && /_at$/.test(difference.at) && difference.ours === '<time>',
  },
  'own-version': {
    what: '`version` of /health',
    ours: '`slipway`',
    lite: 'a token that names it',
    right: 'both',
    source: AUTH_SOURCE,
    covers: (difference, outcome) => named(outcome, 'auth GET /health') && at(difference, 'body.version'),
  },
  'newer-settings': {
    what: '`passkeys_enabled` of /settings',
    ours: '`false`',
    lite: 'none, as older releases of upstream',
    right: 'both',
    source: AUTH_SOURCE,
    covers: (difference, outcome) => named(outcome, 'auth GET /settings') && at(difference, 'body.passkeys_enabled'),
  },
  'verified-identity': {
    what: '`email_verified` of an identity that was confirmed at once',
    ours: '`true`',
    lite: '`true` in the response to the sign-up, and `false` later',
    right: 'both',
    source: AUTH_SOURCE,
    covers: (difference, outcome) => of('auth', outcome) && difference.at.endsWith('identity_data.email_verified'),
  },
  'weak-password': {
    what: '`weak_password` of a session',
    ours: 'only if the password is weak',
    lite: 'always, `null`',
    right: 'ours',
    source: AUTH_SOURCE,
    covers: (difference, outcome) => of('auth', outcome) && at(difference, 'body.weak_password'),
  },
  'words-of-a-parser': {
    what: 'The parser’s error after upstream’s message for JSON or a token',
    ours: 'V8’s for JSON, none for a token',
    lite: 'a message of Go’s, not always the right one',
    right: 'both',
    source: AUTH_ERRORS,
    covers: (difference, outcome) => named(outcome, 'auth ') && at(difference, 'body.msg') && sameStart(difference),
  },
  phones: {
    what: 'Phone numbers',
    ours: '`phone_provider_disabled`, until messages can be sent',
    lite: 'not checked',
    right: 'ours',
    source: AUTH_ERRORS,
    covers: (difference, outcome) =>
      named(outcome, 'auth ') && named(outcome, '(a phone)') && at(difference, 'status', 'body'),
  },
  'refresh-words': {
    what: 'Invalid or missing refresh tokens',
    ours: '`refresh_token_not_found`; `refresh_token required`',
    lite: '`validation_failed`, Refresh token is not valid',
    right: 'ours',
    source: AUTH_ERRORS,
    covers: (difference, outcome) =>
      named(outcome, 'grant_type=refresh_token') && at(difference, 'body.error_code', 'body.msg'),
  },
  'no-mail': {
    what: 'Mails of a project without a mail server',
    ours: '`email_provider_disabled` with the missing setting; once it is set, always 200',
    lite: 'written to its console',
    right: 'both',
    source: AUTH_ERRORS,
    covers: (difference, { ours }) =>
      errorCodeOf(ours.body) === 'email_provider_disabled' && at(difference, 'status', 'body'),
  },
  'verify-email': {
    what: '`type=email` of /verify',
    ours: 'any code of that address',
    lite: 'no such type',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/auth-verifyotp',
    covers: (difference, outcome) =>
      named(outcome, 'POST /verify') &&
      errorCodeOf(outcome.ours.body) === 'otp_expired' &&
      at(difference, 'status', 'body'),
  },
  'verify-words': {
    what: 'Message for an unknown type at /verify',
    ours: '`Unsupported verification type`',
    lite: '`Invalid email verification type`',
    right: 'both',
    source: 'https://github.com/supabase/auth/blob/master/internal/api/verify.go',
    covers: (difference, outcome) => named(outcome, '(an invalid type)') && at(difference, 'body.msg'),
  },
  'same-address': {
    what: 'A redirect to a site without a path',
    ours: '`http://localhost:3000/#…`',
    lite: '`http://localhost:3000#…`, which is the same address',
    right: 'both',
    source: 'https://url.spec.whatwg.org/#url-serializing',
    covers: (difference, outcome) =>
      named(outcome, 'auth GET /verify') &&
      at(difference, 'location') &&
      String(difference.ours).replace('/#', '#') === difference.lite,
  },
  callback: {
    what: '/callback without a state',
    ours: '302 with the error in query and fragment',
    lite: '303 with the error in the query and in a body',
    right: 'ours',
    source: 'https://github.com/supabase/auth/blob/master/internal/api/external.go',
    covers: (difference, outcome) =>
      named(outcome, 'auth GET /callback') && at(difference, 'status', 'location', 'body', 'content-type'),
  },
  administration: {
    what: 'Administration of users',
    ours: 'all of it, and `not_admin` for others',
    lite: 'absent',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/admin-api',
    covers: (difference, outcome) => named(outcome, ' /admin/users') && at(difference, 'status', 'body'),
  },
  'other-methods': {
    what: 'Unknown routes or methods of auth',
    ours: '404, `not_found`',
    lite: '405 if another method exists; otherwise 401 without a token',
    right: 'both',
    source: 'https://github.com/supabase/auth/blob/master/internal/api/api.go',
    covers: (difference, { ours, case: { service } }) =>
      service === 'auth' && ours.status === 404 && at(difference, ...ANSWER, 'allow'),
  },
  'type-of-storage': {
    what: 'Content-Type of storage’s JSON',
    ours: '`application/json; charset=utf-8`',
    lite: '`application/json`',
    right: 'ours',
    source: STORAGE_SOURCE,
    covers: (difference, outcome) =>
      of('storage', outcome) && at(difference, 'content-type') && difference.ours === 'application/json; charset=utf-8',
  },
  'code-of-storage': {
    what: '`code` of storage’s errors',
    ours: 'as documented, besides the older members',
    lite: 'only the older members',
    right: 'ours',
    source: STORAGE_ERRORS,
    covers: (difference, { case: { service }, ours, lite }) =>
      service === 'storage' && at(difference, 'body.code') && !difference.lite && ours.status === lite.status,
  },
  'invalid-input': {
    what: 'Invalid bodies at storage',
    ours: 'an error in storage’s format; a bucket needs only a name',
    lite: 'its validator’s error with the schema; a bucket needs an id too',
    right: 'ours',
    source: STORAGE_ERRORS,
    covers: (difference, { lite, case: { service } }) =>
      service === 'storage' && hasMember(lite.body, 'valid') && at(difference, 'status', 'body'),
  },
  buckets: {
    what: 'A bucket’s members',
    ours: '`type`; no owner is `null`',
    lite: 'no `type`; no owner is empty',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/storage-getbucket',
    covers: (difference, outcome) => named(outcome, 'storage GET /bucket/') && at(difference, 'body'),
  },
  limits: {
    what: 'Files that are too large, or of a type that is not allowed',
    ours: '413; upstream’s words',
    lite: '400; the message names the allowed values',
    right: 'ours',
    source: STORAGE_ERRORS,
    covers: (difference, outcome) =>
      named(outcome, '(too large)', '(of a type that is not allowed)') &&
      at(difference, 'status', 'body.code', 'body.message'),
  },
  'authenticated-route': {
    what: '`/object/authenticated/…`',
    ours: 'the file',
    lite: 'treated as a bucket with that name',
    right: 'ours',
    source: STORAGE_SOURCE,
    covers: (difference, outcome) =>
      named(outcome, '/object/authenticated/') && at(difference, ...ANSWER, 'accept-ranges'),
  },
  'object-of-no-bucket': {
    what: 'An object of a missing bucket',
    ours: 'Object not found, and an empty list',
    lite: 'Bucket not found',
    right: 'ours',
    source: STORAGE_SOURCE,
    covers: (difference, outcome) =>
      named(outcome, 'GET /object/nothere/', '/object/list/nothere') && at(difference, 'status', 'body'),
  },
  downloads: {
    what: 'Downloads with a file name, and ranges',
    ours: '`Content-Disposition`; 206',
    lite: 'neither',
    right: 'ours',
    source: 'https://supabase.com/docs/guides/storage/serving/downloads',
    covers: (difference, outcome) =>
      named(outcome, 'GET /object/public/') && at(difference, 'status', 'body', 'content-range', 'content-disposition'),
  },
  'lists-and-info': {
    what: 'Lists and info of objects',
    ours:
      'one level at a time, with folders as entries, and names relative to the folder; info as storage-js ' +
      'expects it',
    lite: 'rows of its table, regardless of the folder',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/storage-from-list',
    covers: (difference, outcome) =>
      named(outcome, '/object/list/', '/object/info/', 'DELETE /object/docs {"prefixes":["a') && at(difference, 'body'),
  },
  keys: {
    what: 'Responses of copy, move and signed uploads',
    ours: '`Id` and `Key`, with the bucket',
    lite: '`key` without it, or nothing',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/storage-from-copy',
    covers: (difference, outcome) =>
      named(outcome, '/object/copy', '/object/move', '{{upload}}') && at(difference, 'body'),
  },
  'signed-addresses': {
    what: 'Signed URLs',
    ours: '`signedURL` below the service’s root, `url` of an upload, several at once',
    lite: '`signedUrl` from the host’s root, which storage-js doubles; several at once fail completely',
    right: 'ours',
    source: 'https://supabase.com/docs/reference/javascript/storage-from-createsignedurls',
    covers: (difference, outcome) =>
      named(outcome, 'POST /object/sign/docs', 'POST /object/upload/sign/') && at(difference, 'status', 'body'),
  },
  'bad-signatures': {
    what: 'Signed URLs with an invalid token, or none',
    ours: 'InvalidJWT',
    lite: '500, or Missing token',
    right: 'ours',
    source: STORAGE_ERRORS,
    covers: (difference, outcome) =>
      named(outcome, 'token=nonsense', '(no token)') && of('storage', outcome) && at(difference, 'status', 'body'),
  },
  removals: {
    what: 'Removal of one object by its path, and of an empty list',
    ours: 'works; an empty list is rejected',
    lite: 'no route; returns an empty list',
    right: 'ours',
    source: STORAGE_SOURCE,
    covers: (difference, outcome) =>
      named(outcome, 'DELETE /object/docs/', '(nothing)') && of('storage', outcome) && at(difference, 'status', 'body'),
  },
  emptied: {
    what: 'Emptying a bucket',
    ours: 'complete at the response',
    lite: 'complete too, with upstream’s message for a queue',
    right: 'lite',
    source: 'https://supabase.com/docs/reference/javascript/storage-emptybucket',
    covers: (difference, outcome) => named(outcome, '/empty') && at(difference, 'body.message'),
  },
  'no-route-of-storage': {
    what: 'Unknown routes of storage',
    ours: '400 with 404 in the body, like its other errors',
    lite: '404, with fastify’s message',
    right: 'lite',
    source: STORAGE_SOURCE,
    covers: (difference, outcome) => named(outcome, 'storage GET /nonsense') && at(difference, 'status', 'body'),
  },
};

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;
const codeOf = (body: unknown) => (isObject(body) ? body.code : undefined);
const errorCodeOf = (body: unknown) => (isObject(body) ? body.error_code : undefined);
const hasMember = (body: unknown, name: string) => isObject(body) && name in body;
const sameStart = ({ ours, lite }: Difference) => String(ours).slice(0, 30) === String(lite).slice(0, 30);
