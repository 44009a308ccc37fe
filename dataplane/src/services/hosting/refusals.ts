/** Responses of sites to requests that are rejected. */
import type { Refusal } from '../../http/refusals.js';

export const NO_FILE: Refusal = {
  status: 404,
  body: {
    message: 'The site has no file at this address',
    hint: 'A file 404.html of the site would be shown instead.',
  },
  // Not cached, because the next deployment may have the file. Varies, because the fallback page depends on the fetch
  // mode.
  headers: { 'Cache-Control': 'no-store', Vary: 'Sec-Fetch-Mode' },
};

export const MALFORMED_PATH: Refusal = {
  status: 400,
  body: { message: 'The path of the URL is not UTF-8 in percent-encoding', hint: 'A percent sign itself is %25.' },
};
