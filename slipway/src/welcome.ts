/** What a start ends with: where everything is, and three commands that show it works. */
import { randomBytes } from 'node:crypto';
import path from 'node:path';
import { kubernetesUrl } from './programs.js';
import { reachableAt, type Settings } from './settings.js';

export function welcome(settings: Settings, kubeconfig: string, seconds: string): string {
  const url = settings.publicUrl;
  // A name of its own each time: an account that is there already can't be registered again.
  const email = `me-${randomBytes(3).toString('hex')}@example.com`;
  const relative = path.relative(process.cwd(), kubeconfig);
  const file = relative.startsWith('..') ? kubeconfig : relative;
  const json = "-H 'content-type: application/json'";
  return `
Slipway is ready (${seconds} s). Ctrl-C ends it; all data stays.

  REST API and projects  ${url}  (all routes: ${url}/docs)
  Kubernetes API         ${kubernetesUrl(settings)}
  Postgres               ${reachableAt(settings.host)}:${settings.ports.postgres}
  kubeconfig             ${file}

Try next, in another terminal${relative.startsWith('..') ? '' : ' in this folder'}:

  TOKEN=$(curl -s ${url}/auth/register ${json} -d '{"email":"${email}","password":"a long password"}' | sed 's/.*"token":"\\([^"]*\\)".*/\\1/')
  curl -s ${url}/projects -H "authorization: Bearer $TOKEN" ${json} -d '{"name":"first"}'
  kubectl --kubeconfig ${file} get projects -w
`;
}
