/** The text at the end of a start: addresses, and three commands that show that it works. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { isolation } from '@slipway/dataplane/functions/isolation.js';
import { kubernetesUrl } from './programs.js';
import { inUrl, isLoopback, reachableAt, type Settings } from './settings.js';
import type { Started } from './supervisor.js';

export function welcome(settings: Settings, { kubeconfig, setupCode }: Started, seconds: string): string {
  const url = settings.publicUrl;
  // A name of its own each time: an account that is there already can't be registered again.
  const email = `me-${randomBytes(3).toString('hex')}@example.com`;
  const relative = path.relative(process.cwd(), kubeconfig);
  const file = relative.startsWith('..') ? kubeconfig : relative;
  const isRegistering = setupCode !== undefined || settings.registration === 'open';
  const address = setupCode || !isRegistering ? 'you@example.com' : email;
  const password = passwordOf(settings, isRegistering);
  const account = { email: address, password, ...(setupCode ? { code: setupCode } : {}) };
  const json = "-H 'content-type: application/json'";
  return `
Slipway is ready (${seconds} s). Ctrl-C ends it; all data stays.

  REST API and projects  ${url}  (all routes: ${url}/docs)
  Kubernetes API         ${kubernetesUrl(settings)}${opening(settings, settings.kubernetesHost, 'SLIPWAY_KUBERNETES_HOST')}
  Postgres               ${inUrl(reachableAt(settings.postgresHost))}:${settings.ports.postgres}${opening(settings, settings.postgresHost, 'SLIPWAY_POSTGRES_HOST')}
  kubeconfig             ${file}
  functions              ${isolation().description}

${setupCode ? setupHint(setupCode) : ''}Try next, in another terminal${relative.startsWith('..') ? '' : ' in this folder'}:

  TOKEN=$(curl -s ${url}/auth/${isRegistering ? 'register' : 'login'} ${json} -d '${JSON.stringify(account)}' | sed 's/.*"token":"\\([^"]*\\)".*/\\1/')
  curl -s ${url}/projects -H "authorization: Bearer $TOKEN" ${json} -d '{"name":"first"}'
  kubectl --kubeconfig ${file} get projects -w
`;
}

/** Where others can reach the login, a pasted command must not make an account whose password they know. */
function passwordOf({ localOnly }: Settings, isRegistering: boolean): string {
  if (!isRegistering) return 'your password';
  return localOnly ? 'a long password' : randomBytes(18).toString('base64url');
}

const setupHint = (code: string) =>
  `There is no administrator yet. Register one with this setup code, which works once:

  ${code}

or appoint an account that exists: npm run admin -- appoint <address>
The command below sets a random password. Put in your address, and keep the password.

`;

/** An earlier release opened both with the port for people. */
const opening = ({ host }: Settings, own: string, setting: string) =>
  isLoopback(host) || !isLoopback(own) ? '' : `  (this machine alone; ${setting} opens it)`;
