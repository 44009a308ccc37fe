/** Responses of the gateway to rejected requests, before any service gets them. */
import { type ProjectService, type ProjectType } from '@slipway/crds';
import { PROJECT_PAUSED, PROJECTS_DOMAIN_SETTING, whyUnavailable } from '@slipway/installation';
import { READ_ONLY_SITE, type Refusal } from '../http/refusals.js';
import type { TokenProblem } from '../identity/tokens.js';
import { type Pause, reasonOf } from '../projects/paused-projects.js';
import type { HostedTenant, SiteTenant } from '../projects/tenant.js';

export const UNKNOWN_PROJECT: Refusal = {
  status: 404,
  body: { message: 'There is no project at this address', hint: 'Its ref is part of project_url.' },
};

/** Rejection with status 421: the server does not serve the host name of the request (RFC 9110). */
export const OTHER_HOST: Refusal = {
  status: 421,
  body: {
    type: 'about:blank',
    title: 'Misdirected Request',
    status: 421,
    detail:
      'This platform does not answer for the host name of the request. ' +
      'If the name is its own, set SLIPWAY_PUBLIC_URL to ' +
      'its address, or add the name to SLIPWAY_ALLOWED_HOSTS, and start it again.',
  },
  headers: { 'Content-Type': 'application/problem+json' },
};

export const NO_PROXY: Refusal = {
  status: 400,
  body: { message: 'This is no proxy: send the path alone as the target of the request, and the host as Host' },
};

export const NOT_LINKED: Refusal = {
  status: 403,
  body: {
    message: 'This container may only send requests to the project that its app is linked to',
    hint: 'Set database_project of the app, and use the variable SUPABASE_URL.',
  },
};

export const TWO_HOSTS: Refusal = {
  status: 400,
  body: { message: 'The request has more than one Host header: send one' },
};

export const NO_KEY: Refusal = {
  status: 401,
  body: {
    message: 'No API key found in request',
    hint: 'Send the project’s anon or service_role key in the header `apikey`.',
  },
};

/** The message is upstream's. */
export const invalidKey = ({ kind }: TokenProblem, ref: string): Refusal => ({
  status: 401,
  body: {
    message: 'Invalid API key',
    hint:
      kind === 'signature'
        ? `This key is not for project ${ref}. Use its own anon_key or service_role_key: GET /projects/{id} shows them.`
        : 'Double check your project’s `anon` or `service_role` API key.',
  },
});

export const TOO_MANY_REQUESTS: Refusal = {
  status: 429,
  body: {
    message: 'Too many requests from this address; try again in a second',
    hint: 'The installation sets the limit by SLIPWAY_RATE_LIMIT.',
  },
  headers: { 'Retry-After': '1' },
};

/** Response in two formats: a problem document, and the members that clients of the services show. */
export function suspended(ref: string): Refusal {
  const message = 'The project is suspended: its data stays, and nothing of it runs.';
  const resume = `kubectl patch project ${ref} --type merge -p '{"spec":{"suspend":false}}'`;
  const hint =
    'Its owner resumes it by PATCH /projects/{id} with {"suspended":false}. ' +
    `If the platform suspended it, an administrator resumes it: ${resume}`;
  const problem = { type: 'urn:slipway:problem:project-suspended', title: 'The project is suspended', status: 503 };
  return {
    status: 503,
    body: { ...problem, code: 'project_suspended', detail: `${message} ${hint}`, message, hint },
    headers: { 'Content-Type': 'application/problem+json' },
  };
}

/** The operator reads the reason from Proxy-Status (RFC 9209), because a HEAD has no body. */
export function paused(pause: Pause): Refusal {
  const { until, operation } = pause;
  const time = new Date(until).toISOString();
  const message =
    `The project is paused until ${time}: twice within an hour, ` +
    `the data plane stopped answering all projects during an operation of this one (${operation}).`;
  const hint = 'Requests are served again after that time. The platform’s log has the line "program hung".';
  const problem = { type: 'urn:slipway:problem:project-paused', title: 'The project is paused', status: 503 };
  return {
    status: 503,
    body: { ...problem, code: PROJECT_PAUSED, detail: `${message} ${hint}`, message, hint },
    headers: {
      'Content-Type': 'application/problem+json',
      'Retry-After': String(Math.max(1, Math.ceil((until - Date.now()) / 1000))),
      'Proxy-Status': `slipway; error=${PROJECT_PAUSED}; details="${reasonOf(pause)}"`,
    },
  };
}

/** Returns the rejection of a request to a site; undefined if its files answer, or one of its forms. */
export function siteRefusal(
  tenant: SiteTenant,
  { method, ownOrigin, isForm }: { method: string; ownOrigin: boolean; isForm: boolean },
): Refusal | undefined {
  const refusal = hostedRefusal(tenant, ownOrigin);
  if (refusal === undefined && !isForm && method !== 'GET' && method !== 'HEAD') return READ_ONLY_SITE;
  return refusal;
}

/** Returns the rejection of a request that neither a site nor an app gets. */
export function hostedRefusal(
  { kind, ref, siteUrl, suspended: standsStill }: HostedTenant,
  ownOrigin: boolean,
): Refusal | undefined {
  const noun = kind === 'app' ? 'an app' : 'a site';
  if (siteUrl === undefined) {
    return {
      status: 404,
      body: {
        message: `The project ${ref} is ${noun}, and has no address: this installation has no domain for projects`,
        hint:
          `An administrator sets a domain for projects with ${PROJECTS_DOMAIN_SETTING}, ` +
          'on a cluster by projectsDomain of its site.',
      },
    };
  }
  if (!ownOrigin) {
    const message = `The project ${ref} is ${noun}: it is at ${siteUrl}`;
    // The operator reads the address from the header, because a HEAD has no body.
    return { status: 404, body: { message }, headers: { Link: `<${siteUrl}>; rel="canonical"` } };
  }
  return standsStill ? suspended(ref) : undefined;
}

export const NO_UPGRADE: Refusal = {
  status: 400,
  body: {
    message: 'Only HTTP is served here',
    hint: 'Realtime is at <project_url>/realtime/v1/websocket; GET /projects/{id} shows project_url.',
  },
};

export const notHere = (service: string, why: string): Refusal => ({
  status: 404,
  body: { message: `${service} is not available here: ${why}` },
});

/** The availability matrix is the installation's own choice, which one setting changes. */
export const unavailable = (service: ProjectService, type: ProjectType): Refusal => ({
  status: 404,
  body: whyUnavailable(service, type),
});
