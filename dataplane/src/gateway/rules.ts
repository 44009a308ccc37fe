/** Rules of the gateway for each service: routes without a key, limits on size and time, and the format of errors. */
import { type ProjectService } from '@slipway/crds';
import { type Refusal } from '../http/refusals.js';
import {
  authTokenRefusal,
  functionsTokenRefusal,
  restTokenRefusal,
  storageRefusal,
  storageTokenRefusal,
} from '../identity/token-refusals.js';
import type { TokenProblem } from '../identity/tokens.js';

export interface ServiceRules {
  /** True for routes without a key. The service gets the rejection that the key would have had. */
  open?(method: string, path: string): boolean;
  /** Requests and responses have no limit on size or time while data moves; the service sets its own bounds. */
  streams?: boolean;
  /**
   * Serves a caller with a valid key and an invalid Bearer token with the key's role. The service gets the token's
   * problem.
   */
  servesBadTokens?: boolean;
  tokenRefusal(problem: TokenProblem, ref: string): Refusal;
  /** Converts other rejections to the format of the service's clients. Default: unchanged. */
  reworded?(refusal: Refusal): Refusal;
}

const opened =
  (...routes: RegExp[]) =>
  (method: string, path: string) =>
    routes.some((route) => route.test(`${method} ${path}`));

export const RULES: Readonly<Record<ProjectService, ServiceRules>> = {
  rest: { tokenRefusal: restTokenRefusal },
  auth: {
    // Routes without a key: links in mails, browsers, and verifiers of tokens.
    open: opened(
      /^(GET|HEAD) \/(health|authorize|\.well-known\/(jwks\.json|openid-configuration))$/,
      /^(GET|POST) \/(verify|callback)$/,
    ),
    servesBadTokens: true,
    tokenRefusal: authTokenRefusal,
  },
  realtime: { open: (_, path) => path === '/api/health', tokenRefusal: functionsTokenRefusal },
  storage: {
    streams: true,
    // Public routes, and those with a signed token in the query or for an OPTIONS of the TUS protocol.
    open: opened(
      /^(GET|HEAD) \/(status|health)$/,
      /^(GET|HEAD) \/(object|render\/image)\/(public|info\/public|sign)\//,
      /^PUT \/object\/upload\/sign\//,
      /^(POST|HEAD|PATCH|OPTIONS|DELETE) \/upload\/resumable\/sign(\/|$)/,
      /^OPTIONS \//,
    ),
    tokenRefusal: storageTokenRefusal,
    reworded: storageRefusal,
  },
  // Each function decides by its own setting whether a call needs a token.
  functions: { streams: true, open: () => true, tokenRefusal: functionsTokenRefusal },
};
