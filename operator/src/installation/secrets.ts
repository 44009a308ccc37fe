/**
 * The platform's own secrets on a cluster. Missing values are generated, and existing values are never changed, because
 * a site may set its own. In: the Kubernetes API. Out: the URLs of the platform's Postgres for the administrator and
 * for the API.
 */

import { randomBytes } from 'node:crypto';
import { API_VERSION, type Project } from '@slipway/crds';
import {
  API_SECRET,
  FUNCTIONS_SECRET,
  HOSTING_SECRET,
  LABEL_MANAGED_BY,
  LOGS_SECRET,
  MACHINES_SECRET,
  MANAGED_BY,
  POSTGRES_SECRET,
  PROGRAMS,
  SETUP_SECRET,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import { generatedSecret } from '../runtime/generated-secret.js';

export interface PlatformSecrets {
  /** URL of the administrator. */
  adminUrl: string;
  /** URL of the API's own role. */
  apiUrl: string;
}

const LABELS = { [LABEL_MANAGED_BY]: MANAGED_BY };
const newSecret = () => randomBytes(36).toString('base64url');

export async function platformSecrets(client: KubeClient): Promise<PlatformSecrets> {
  const hasData = await hasProjects(client);
  const postgres = await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: POSTGRES_SECRET.name,
    labels: LABELS,
    make: (current) => {
      if (current[POSTGRES_SECRET.url]) return {};
      return madeBeforeData(hasData, current, POSTGRES_SECRET.name, { [POSTGRES_SECRET.password]: newSecret });
    },
  });
  const adminUrl = postgres[POSTGRES_SECRET.url] || urlOfOurs(postgres[POSTGRES_SECRET.password] as string);
  const api = await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: API_SECRET.name,
    labels: LABELS,
    make: (current) => ({
      // The operator sets the password in Postgres at each check, so a new one does no harm.
      [API_SECRET.databaseUrl]: apiUrl(adminUrl),
      ...madeBeforeData(hasData, current, API_SECRET.name, {
        [API_SECRET.jwtSecret]: newSecret,
        [API_SECRET.encryptionKeys]: newKeys,
      }),
    }),
  });
  // Pods that mount these Secrets wait until they exist.
  await functionsToken(client);
  await hostingToken(client);
  await tokenIn(client, LOGS_SECRET);
  await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: SETUP_SECRET.name,
    labels: LABELS,
    make: () => ({ [SETUP_SECRET.code]: newSecret() }),
  });
  return { adminUrl, apiUrl: api[API_SECRET.databaseUrl] as string };
}

/** Number of Projects to list. One of them that was healthy once is enough to know that the installation was used. */
const LOOK_AT = '500';

/**
 * True if a Project has a URL, which it gets when it is first healthy. A Project that was applied before the first
 * start has none.
 */
async function hasProjects(client: KubeClient): Promise<boolean> {
  const { items } = await client.get<{ items: Project[] }>(`/apis/${API_VERSION}/projects`, { limit: LOOK_AT });
  return items.some(({ status }) => status?.url !== undefined);
}

/**
 * Returns new values for the missing keys. Throws if data exists that needs the lost values: new values would hide the
 * loss.
 */
function madeBeforeData(
  hasData: boolean,
  current: Record<string, string>,
  name: string,
  make: Record<string, () => string>,
): Record<string, string> {
  const missing = Object.keys(make).filter((key) => !current[key]);
  if (missing.length > 0 && hasData) {
    throw new Error(
      `the Secret ${SYSTEM_NAMESPACE}/${name} is missing or has no ${missing.join(' and no ')}, and the data of ` +
        'Projects needs it: restore it from a backup',
    );
  }
  return Object.fromEntries(missing.map((key) => [key, (make[key] as () => string)()]));
}

/** Returns the token for deploying functions to their pods. */
export const functionsToken = (client: KubeClient) => tokenIn(client, FUNCTIONS_SECRET);

/** Returns the token of the store of sites. It also signs the tokens of builds. */
export const hostingToken = (client: KubeClient) => tokenIn(client, HOSTING_SECRET);

/**
 * Returns the label of this installation at the provider of machines. It is random, so that two installations with one
 * account of the provider keep their machines apart.
 */
export async function machineLabel(client: KubeClient): Promise<string> {
  const { name, label } = MACHINES_SECRET;
  const make = () => ({ [label]: `s${randomBytes(5).toString('hex')}` });
  const kept = await generatedSecret(client, { namespace: SYSTEM_NAMESPACE, name, labels: LABELS, make });
  return kept[label] as string;
}

async function tokenIn(client: KubeClient, { name, token }: { name: string; token: string }): Promise<string> {
  const make = () => ({ [token]: newSecret() });
  const kept = await generatedSecret(client, { namespace: SYSTEM_NAMESPACE, name, labels: LABELS, make });
  return kept[token] as string;
}

/** Returns the URL of the Postgres in the manifests. */
const urlOfOurs = (password: string) =>
  `postgresql://postgres:${encodeURIComponent(password)}@${PROGRAMS.postgres}.${SYSTEM_NAMESPACE}.svc:5432/postgres`;

/** Returns the URL of the API: the same server and parameters, with the API's role. */
function apiUrl(adminUrl: string): string {
  const url = platformUrl(adminUrl, PLATFORM_DATABASE);
  url.username = PLATFORM_ROLES.api.role;
  url.password = newSecret();
  return url.href;
}

export function platformUrl(adminUrl: string, database: string): URL {
  if (!/^postgres(ql)?:\/\//.test(adminUrl) || !URL.canParse(adminUrl)) {
    // The URL contains a password, so the error does not repeat it.
    const form = 'postgresql://user:password@host:5432/postgres';
    throw new Error(`url in the Secret ${SYSTEM_NAMESPACE}/${POSTGRES_SECRET.name} must be like ${form}`);
  }
  const url = new URL(adminUrl);
  url.pathname = `/${database}`;
  return url;
}

const newKeys = () => JSON.stringify({ current: '1', keys: { 1: randomBytes(32).toString('base64') } });
