/**
 * The platform's own secrets. The first start generates them. They are in files that only the account that started the
 * platform can read. Each program gets only the secrets that it needs.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { isInitialised, writeAtomically } from '@slipway/postgres';
import type { Home } from './home.js';
import { StartProblem } from './problem.js';

/** Users of the Kubernetes API, each with a token. `admin` is the person with the kubeconfig. */
export const KUBERNETES_USERS = ['admin', 'supervisor', 'operator', 'api', 'dataplane'] as const;
export type KubernetesUser = (typeof KUBERNETES_USERS)[number];

export interface Secrets {
  /** Passwords of Postgres's login roles. */
  superuserPassword: string;
  platformSuperuserPassword: string;
  apiserverPassword: string;
  apiPassword: string;
  tokens: Record<KubernetesUser, string>;
  /** The code with which the first administrator registers, if registration needs a code. */
  setupCode: string;
  files: { jwtSecret: string; setupCode: string; apiserverKeys: string; apiKeys: string; tokens: string };
}

/**
 * Secrets without which existing data can't be used. If such a secret is lost, a new one would hide the loss. `by`
 * names the data folders that need the secret. One of them is enough, because the platform's data may be in either
 * folder.
 */
const NEEDED_BY_DATA: Record<string, { by: ('postgres' | 'platformPostgres')[]; why: string }> = {
  'postgres-superuser': { by: ['postgres'], why: 'nobody can log in to Postgres without it' },
  'platform-postgres-superuser': { by: ['platformPostgres'], why: 'nobody can log in to Postgres without it' },
  'apiserver-keys.json': {
    by: ['postgres', 'platformPostgres'],
    why: 'the Secrets of all projects are encrypted with it',
  },
  'api-keys.json': { by: ['postgres', 'platformPostgres'], why: 'the projects’ Git tokens are encrypted with it' },
  'jwt-secret': { by: ['postgres', 'platformPostgres'], why: 'it signs the user tokens of all accounts' },
};

export async function openSecrets(home: Home): Promise<Secrets> {
  const { secrets } = home;
  const file = (name: string) => path.join(secrets, name);
  await refuseMissing(home);
  const tokens = await Promise.all(KUBERNETES_USERS.map(async (user) => [user, await kept(file(`token-${user}`))]));
  const made: Secrets = {
    superuserPassword: await kept(file('postgres-superuser')),
    platformSuperuserPassword: await kept(file('platform-postgres-superuser')),
    apiserverPassword: await kept(file('postgres-apiserver')),
    apiPassword: await kept(file('postgres-api')),
    tokens: Object.fromEntries(tokens),
    setupCode: await kept(file('setup-code')),
    files: {
      setupCode: file('setup-code'),
      jwtSecret: file('jwt-secret'),
      apiserverKeys: file('apiserver-keys.json'),
      apiKeys: file('api-keys.json'),
      tokens: file('tokens.json'),
    },
  };
  await kept(made.files.jwtSecret);
  await kept(made.files.apiserverKeys, newKeys);
  await kept(made.files.apiKeys, newKeys);
  await writeAtomically(made.files.tokens, JSON.stringify(tokenFile(made.tokens)));
  return made;
}

async function refuseMissing(home: Home): Promise<void> {
  const hasData = {
    postgres: await isInitialised(home.postgres),
    platformPostgres: await isInitialised(home.platformPostgres),
  };
  for (const [name, { by, why }] of Object.entries(NEEDED_BY_DATA)) {
    const data = by.find((folder) => hasData[folder]);
    const file = path.join(home.secrets, name);
    if (data === undefined || (await contentOf(file))) continue;
    throw new StartProblem(
      `${file} is missing, and the data in ${home[data]} needs it: restore the file from a backup (${why})`,
    );
  }
}

/** Returns the content, or an empty string if the file does not exist. */
const contentOf = (file: string) =>
  readFile(file, 'utf8').catch((error) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });

/** Returns the secret in `file`, and makes it first if it is missing. */
async function kept(file: string, make: () => string = newSecret): Promise<string> {
  const existing = await contentOf(file);
  if (existing) return existing;
  const made = make();
  await writeAtomically(file, made);
  return made;
}

const newSecret = () => randomBytes(36).toString('base64url');

const newKeys = () => JSON.stringify({ current: '1', keys: { 1: randomBytes(32).toString('base64') } });

const tokenFile = (tokens: Secrets['tokens']) =>
  KUBERNETES_USERS.map((user) => ({
    token: tokens[user],
    user: user === 'admin' ? user : `slipway:${user}`,
    groups: ['system:masters'],
  }));
