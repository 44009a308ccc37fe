/**
 * The platform's own secrets: made by the first start, kept in files that only the starter reads, handed to each program as
 * far as it needs them.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { writeAtomically } from './atomic-file.js';
import type { Home } from './home.js';

/** Who has a token of its own for the Kubernetes API; `admin` is the person with the kubeconfig. */
export const KUBERNETES_USERS = ['admin', 'supervisor', 'operator', 'api', 'dataplane'] as const;
export type KubernetesUser = (typeof KUBERNETES_USERS)[number];

export interface Secrets {
  /** Passwords of Postgres's login roles. */
  superuserPassword: string;
  apiserverPassword: string;
  apiPassword: string;
  tokens: Record<KubernetesUser, string>;
  files: { jwtSecret: string; apiserverKeys: string; apiKeys: string; tokens: string };
}

export async function openSecrets({ secrets }: Home): Promise<Secrets> {
  const file = (name: string) => path.join(secrets, name);
  const tokens = await Promise.all(KUBERNETES_USERS.map(async (user) => [user, await kept(file(`token-${user}`))]));
  const made: Secrets = {
    superuserPassword: await kept(file('postgres-superuser')),
    apiserverPassword: await kept(file('postgres-apiserver')),
    apiPassword: await kept(file('postgres-api')),
    tokens: Object.fromEntries(tokens),
    files: {
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

/** The secret in `file`, made where there is none. */
async function kept(file: string, make: () => string = newSecret): Promise<string> {
  const existing = await readFile(file, 'utf8').catch((error) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
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
