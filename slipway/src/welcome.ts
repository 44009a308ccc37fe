/** The text at the end of a start: addresses, and commands to try. */

import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { PROJECT_SERVICES } from '@slipway/crds';
import { isolation } from '@slipway/dataplane/functions/isolation.js';
import { EXAMPLE_ACCOUNT, firstCommands, SHARED_SERVICES_SETTING } from '@slipway/installation';
import { isLoopback } from '@slipway/program';
import { kubernetesUrl } from './programs.js';
import { inUrl, reachableAt, type Settings } from './settings.js';
import type { Started } from './supervisor.js';

export function welcome(settings: Settings, started: Started, seconds: string): string {
  const { kubeconfig, setupCode, services } = started;
  const url = settings.publicUrl;
  const relative = path.relative(process.cwd(), kubeconfig);
  const place = relative.startsWith('..') ? '' : ' in this folder';
  const isOpen = settings.registration === 'open';
  const account = accountFor(settings, setupCode);
  const commands = firstCommands({ publicUrl: url, account, isOpen, setupCode });
  const file = relative.startsWith('..') ? kubeconfig : relative;
  const { kubernetesHost, postgresHost, ports } = settings;
  const kubernetes = `${kubernetesUrl(settings)}${opening(settings, kubernetesHost, 'SLIPWAY_KUBERNETES_HOST')}`;
  const postgresAt = `${inUrl(reachableAt(postgresHost))}:${ports.postgres}`;
  const postgres = `${postgresAt}${opening(settings, postgresHost, 'SLIPWAY_POSTGRES_HOST')}`;
  return `
Slipway is ready (${seconds} s after npm start). Ctrl-C ends it; all data stays.

  REST API and projects  ${url}  (all routes: ${url}/docs)
  Kubernetes API         ${kubernetes}
  Postgres               ${postgres}
  kubeconfig             ${file}
  services               ${servicesLine(services)}
${services.includes('functions') ? `  functions              ${isolation().description}\n` : ''}
${setupCode ? setupHint(setupCode) : ''}Try next, in another terminal${place}:

${commands.map((line) => `  ${line}`).join('\n')}
  kubectl --kubeconfig ${file} get projects -w
`;
}

/**
 * Returns the account for the commands. If others can reach the login, a pasted command must not make an account with a
 * password that they know. The password of an existing account is unknown here.
 */
function accountFor({ localOnly, registration }: Settings, setupCode: string | undefined) {
  const isNew = setupCode !== undefined || registration === 'open';
  if (!isNew) return { email: 'you@example.com', password: 'your password' };
  if (localOnly && setupCode === undefined) return EXAMPLE_ACCOUNT;
  return { email: 'you@example.com', password: randomPassword() };
}

const randomPassword = () => randomBytes(18).toString('base64url');

const setupHint = (code: string) =>
  `There is no administrator yet. Register one with this setup code, which works once:

  ${code}

or appoint an account that exists: npm run admin -- appoint <address>
The command below sets a random password. Put in your address, and keep the password.

`;

function servicesLine(services: readonly string[]): string {
  const closed = PROJECT_SERVICES.filter((name) => !services.includes(name));
  const hint = closed.length > 0 ? `  (${SHARED_SERVICES_SETTING}=all npm start opens ${closed.join(', ')} too)` : '';
  return `${services.join(', ')}${hint}`;
}

/** Explains how to open a port. Earlier releases opened both ports together with the port for people. */
const opening = ({ host }: Settings, own: string, setting: string) =>
  isLoopback(host) || !isLoopback(own) ? '' : `  (this machine alone; ${setting} opens it)`;
