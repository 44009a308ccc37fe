/**
 * The platform's own secrets on a cluster, made where they are missing and never changed: what a site put there is its
 * own choice. In: the Kubernetes API. Out: how to reach the platform's Postgres, and how the API will.
 */
import { randomBytes } from 'node:crypto';
import {
  API_SECRET,
  API_VERSION,
  FUNCTIONS_SECRET,
  LABEL_MANAGED_BY,
  MANAGED_BY,
  POSTGRES_SECRET,
  PROGRAMS,
  type Project,
  SETUP_SECRET,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import { PLATFORM_DATABASE, PLATFORM_ROLES } from '@slipway/project-database';
import { generatedSecret } from '../runtime/generated-secret.js';
import type { KubeClient } from '../runtime/kube.js';

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
    make: (held) => {
      if (held[POSTGRES_SECRET.url]) return {};
      return madeBeforeData(hasData, held, POSTGRES_SECRET.name, { [POSTGRES_SECRET.password]: newSecret });
    },
  });
  const adminUrl = postgres[POSTGRES_SECRET.url] || urlOfOurs(postgres[POSTGRES_SECRET.password] as string);
  const api = await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: API_SECRET.name,
    labels: LABELS,
    make: (held) => ({
      // Set in Postgres at each look, so a new one does no harm.
      [API_SECRET.databaseUrl]: apiUrl(adminUrl),
      ...madeBeforeData(hasData, held, API_SECRET.name, {
        [API_SECRET.jwtSecret]: newSecret,
        [API_SECRET.encryptionKeys]: newKeys,
      }),
    }),
  });
  // Pods that mount it wait until it is there.
  await functionsToken(client);
  await generatedSecret(client, {
    namespace: SYSTEM_NAMESPACE,
    name: SETUP_SECRET.name,
    labels: LABELS,
    make: () => ({ [SETUP_SECRET.code]: newSecret() }),
  });
  return { adminUrl, apiUrl: api[API_SECRET.databaseUrl] as string };
}

/** Number of pods to list: one that has served is enough. */
const LOOK_AT = '500';

/**
 * True if a Project has an address, which it has from when it was healthy. One that was applied before the first start
 * has none.
 */
async function hasProjects(client: KubeClient): Promise<boolean> {
  const { items } = await client.get<{ items: Project[] }>(`/apis/${API_VERSION}/projects`, { limit: LOOK_AT });
  return items.some(({ status }) => status?.url !== undefined);
}

/**
 * New values for the keys that are missing. Throws where data exists that the lost values belong to: a new one would
 * hide the loss.
 */
function madeBeforeData(
  hasData: boolean,
  held: Record<string, string>,
  name: string,
  make: Record<string, () => string>,
): Record<string, string> {
  const missing = Object.keys(make).filter((key) => !held[key]);
  if (missing.length > 0 && hasData) {
    throw new Error(
      `the Secret ${SYSTEM_NAMESPACE}/${name} is missing or has no ${missing.join(' and no ')}, and the data of Projects ` +
        'needs it: restore it from a backup',
    );
  }
  return Object.fromEntries(missing.map((key) => [key, (make[key] as () => string)()]));
}

/** Returns the token by which a client deploys functions to their pods. */
export async function functionsToken(client: KubeClient): Promise<string> {
  const { name, token } = FUNCTIONS_SECRET;
  const make = () => ({ [token]: newSecret() });
  const kept = await generatedSecret(client, { namespace: SYSTEM_NAMESPACE, name, labels: LABELS, make });
  return kept[token] as string;
}

/** Returns the URL of the Postgres that the manifests bring. */
const urlOfOurs = (password: string) =>
  `postgresql://postgres:${encodeURIComponent(password)}@${PROGRAMS.postgres}.${SYSTEM_NAMESPACE}.svc:5432/postgres`;

/** The same server, and the same way to it. */
function apiUrl(adminUrl: string): string {
  const url = platformUrl(adminUrl, PLATFORM_DATABASE);
  url.username = PLATFORM_ROLES.api.role;
  url.password = newSecret();
  return url.href;
}

export function platformUrl(adminUrl: string, database: string): URL {
  if (!/^postgres(ql)?:\/\//.test(adminUrl) || !URL.canParse(adminUrl)) {
    // It holds a password: it is not repeated.
    const form = 'postgresql://user:password@host:5432/postgres';
    throw new Error(`url in the Secret ${SYSTEM_NAMESPACE}/${POSTGRES_SECRET.name} is not like ${form}`);
  }
  const url = new URL(adminUrl);
  url.pathname = `/${database}`;
  return url;
}

const newKeys = () => JSON.stringify({ current: '1', keys: { 1: randomBytes(32).toString('base64') } });
