/** Rejections as data: status, body and headers, in the formats that upstream's clients know. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { BodiesTooLargeError } from './request-body.js';

export interface Refusal {
  status: number;
  body: object;
  headers?: OutgoingHttpHeaders;
}

export function refuse(outgoing: ServerResponse, { status, body, headers }: Refusal): void {
  if (outgoing.headersSent) {
    outgoing.destroy();
    return;
  }
  const text = JSON.stringify(body);
  outgoing.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
    'X-Content-Type-Options': 'nosniff',
    ...headers,
  });
  outgoing.end(text);
}

export const STARTING: Refusal = {
  status: 503,
  body: { message: 'The platform is starting; try again in a moment' },
  headers: { 'Retry-After': '1' },
};

export const BODY_TOO_LARGE: Refusal = {
  status: 413,
  body: { message: 'The request body is too large' },
  headers: { Connection: 'close' },
};

export const bodiesTooLarge = ({ status, message }: BodiesTooLargeError): Refusal => ({
  status,
  body: { message },
  headers: { Connection: 'close', 'Retry-After': '1' },
});

export const TOO_SLOW: Refusal = {
  status: 408,
  body: { message: 'The request did not arrive in time' },
  headers: { Connection: 'close' },
};

/** Response for a service whose database or process is unavailable; the next request tries it again. */
export const serviceDown = (service: string): Refusal => ({
  status: 502,
  body: {
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    detail: `The ${service} service does not answer; it may be starting. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

/** Response for a project whose machine is unreachable, has another certificate or sent no valid response. */
export function machineDown(): Refusal {
  const message = "The project's machine does not answer. The platform repairs it by itself; try again in a moment.";
  const hint =
    'If it stays so, its owner restarts a service: POST /projects/{id}/services/{service}/restart, ' +
    'with auth, postgrest, storage, realtime or nginx as the service.';
  return {
    status: 502,
    body: { type: 'about:blank', title: 'Bad Gateway', status: 502, detail: `${message} ${hint}`, message, hint },
    headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '2' },
  };
}

/** Response of a project whose machine is not set up yet. */
export function machinePending(): Refusal {
  const message = "The project's machine is being set up.";
  const hint = 'GET /projects/{id} shows its status.';
  return {
    status: 503,
    body: {
      type: 'about:blank',
      title: 'Service Unavailable',
      status: 503,
      detail: `${message} ${hint}`,
      message,
      hint,
    },
    headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '10' },
  };
}

/** Response for a service that did not respond in time. */
export const serviceTooSlow = (service: string): Refusal => ({
  status: 504,
  body: {
    type: 'about:blank',
    title: 'Gateway Timeout',
    status: 504,
    detail: `The ${service} service did not answer in time. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

export const serviceBusy = (service: string): Refusal => ({
  status: 503,
  body: {
    type: 'about:blank',
    title: 'Service Unavailable',
    status: 503,
    detail: `Too many requests to the ${service} service are under way. Try again in a moment.`,
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

/** Response of a site before its first deployment, or if this data plane does not have the site's files. */
export const NOTHING_DEPLOYED: Refusal = {
  status: 404,
  body: { message: 'Nothing is deployed yet', hint: 'POST /projects/{id}/deploy deploys the site.' },
  // A cache in front would otherwise keep this response after the deployment.
  headers: { 'Cache-Control': 'no-store' },
};

/** Response of a site to a method that it has no use for. */
export const READ_ONLY_SITE: Refusal = {
  status: 405,
  body: { message: 'A site is read by GET and HEAD' },
  headers: { Allow: 'GET, HEAD' },
};

/** Response to a form where no program stores its entries. */
export const FORMS_NOT_OFFERED: Refusal = {
  status: 503,
  body: {
    message: 'This installation stores no entries of forms',
    hint: 'Send the form to a function of a project, or to another service.',
  },
  headers: { 'Cache-Control': 'no-store' },
};

/** Response of an app before its first deployment, or if no version of it is running. */
export const NO_VERSION_RUNS: Refusal = {
  status: 503,
  body: {
    message: 'Nothing is deployed yet: no version of this app is running',
    hint: 'POST /projects/{id}/deploy deploys the app. GET /projects/{id}/builds shows why a build failed.',
  },
  headers: { 'Cache-Control': 'no-store', 'Retry-After': '5' },
};

const ofApp = (status: number, title: string, detail: string): Refusal => ({
  status,
  body: { type: 'about:blank', title, status, detail },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
});

const WHERE_TO_LOOK = "Its owner finds the reason in the app's log, and its state in GET /projects/{id}.";

/** Response for an app whose container is unreachable, or sent no valid response. */
export const APP_DOWN = ofApp(
  502,
  'Bad Gateway',
  `The app does not answer: its container accepts no connection, or sent no valid response. ${WHERE_TO_LOOK}`,
);

export const APP_TOO_SLOW = ofApp(504, 'Gateway Timeout', `The app did not answer in time. ${WHERE_TO_LOOK}`);

export const APP_BUSY = ofApp(
  503,
  'Service Unavailable',
  'Too many requests to this app, or from this address to it, are in flight. Try again in a moment.',
);

export const NO_WEB_SOCKET: Refusal = {
  status: 400,
  body: { message: 'A WebSocket is opened by GET, without a body' },
};

export const FAILED: Refusal = { status: 500, body: { message: 'An unexpected error occurred' } };
