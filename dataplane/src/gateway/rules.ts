/**
 * The gateway's rules for each service: which routes need no key, how large and slow a request may be, and in whose
 * words it is refused.
 */
import type { ProjectService } from '@slipway/crds';
import {
  authTokenRefusal,
  functionsTokenRefusal,
  type Refusal,
  restTokenRefusal,
  storageRefusal,
  storageTokenRefusal,
} from './refusals.js';
import type { TokenProblem } from './tokens.js';

export interface ServiceRules {
  /** Routes that are answered without a key; the service sees what the key would have been refused for. */
  open?(method: string, path: string): boolean;
  /**
   * Its requests and answers are as large and take as long as they need while they move; the service sets its own
   * bounds.
   */
  streams?: boolean;
  /**
   * A caller whose key is good and whose Bearer token isn't is served as the key's, and the service told of the
   * problem.
   */
  servesBadTokens?: boolean;
  tokenRefusal(problem: TokenProblem): Refusal;
  /** Every other refusal in the words of the service's clients; as it is, without. */
  reworded?(refusal: Refusal): Refusal;
}

const opened =
  (...routes: RegExp[]) =>
  (method: string, path: string) =>
    routes.some((route) => route.test(`${method} ${path}`));

export const RULES: Readonly<Record<ProjectService, ServiceRules>> = {
  rest: { tokenRefusal: restTokenRefusal },
  auth: {
    // Where mails, browsers and verifiers of tokens go: they have no key.
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
    // What is public, and what carries a signed token in its query or is described by an OPTIONS of the TUS protocol.
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
  // Whether a function asks for a token is the function's own setting.
  functions: { streams: true, open: () => true, tokenRefusal: functionsTokenRefusal },
};
