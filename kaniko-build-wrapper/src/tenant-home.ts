/** The home folder and the variables of a tenant's commands. */
import { chownSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { Account } from '@slipway/sandbox';
import type { Folders } from './build-session.js';
import type { ProjectCache } from './project-cache.js';
import type { BuildRequest } from './request.js';
import { PROXY_URL } from './sealed-command.js';
import type { MachineNpm } from './toolchain/machine-npm.js';
import type { ManagerName } from './toolchain/plan.js';

const HERE = 'localhost,127.0.0.1,::1';

/**
 * Writes the machine's registry as the default of each package manager. Files of the project and variables of the
 * tenant take precedence.
 */
export function writeHome(home: string, npm: MachineNpm | undefined, account: Account | undefined): void {
  const registry = npm ? [`registry=${npm.registry}`, ...(npm.cafile ? [`cafile=${npm.cafile}`] : [])] : [];
  const yarn = npm ? [`npmRegistryServer: ${JSON.stringify(npm.registry)}`] : [];
  const files = {
    '.npmrc': [...registry, 'update-notifier=false', 'fund=false', 'audit=false'],
    '.yarnrc.yml': [...yarn, `httpProxy: "${PROXY_URL}"`, `httpsProxy: "${PROXY_URL}"`, 'enableTelemetry: false'],
  };
  for (const [name, lines] of Object.entries(files)) {
    const file = path.join(home, name);
    // The clone could write here: a link in place of the file is removed instead of followed.
    rmSync(file, { recursive: true, force: true });
    writeFileSync(file, `${lines.join('\n')}\n`, { mode: 0o600, flag: 'wx' });
    if (account) chownSync(file, account.uid, account.gid);
  }
}

export function tenantEnv(
  { certificates, deployment, env }: BuildRequest,
  commit: string,
  { home, bin }: Folders,
  cache: ProjectCache,
  manager: ManagerName,
): Record<string, string> {
  return {
    PATH: `${bin}:/usr/local/bin:/usr/bin:/bin`,
    HOME: home,
    TMPDIR: home,
    LANG: 'C.UTF-8',
    CI: 'true',
    COMMIT_SHA: commit,
    ...deployment,
    HTTP_PROXY: PROXY_URL,
    HTTPS_PROXY: PROXY_URL,
    http_proxy: PROXY_URL,
    https_proxy: PROXY_URL,
    NO_PROXY: HERE,
    no_proxy: HERE,
    NODE_USE_ENV_PROXY: '1',
    npm_config_cache: cache.packages('npm'),
    // npm would print a warning about this variable.
    ...(manager === 'pnpm' && { npm_config_store_dir: cache.packages('pnpm') }),
    YARN_CACHE_FOLDER: cache.packages('yarn'),
    YARN_ENABLE_GLOBAL_CACHE: 'false',
    ...(certificates && { NODE_EXTRA_CA_CERTS: certificates, SSL_CERT_FILE: certificates }),
    ...env,
  };
}
