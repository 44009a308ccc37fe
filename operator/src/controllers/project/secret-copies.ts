/**
 * Copies of a project's Secrets in the platform's own namespace. A project whose namespace was deleted comes back with
 * the keys and variables that it had. A copy is restored only by creating a Secret that is missing, so it never
 * overwrites a newer one. The garbage collector deletes the copies of a Project that is gone.
 */
import { LABEL_MANAGED_BY, MANAGED_BY, namespaceOf, type Project, SECRETS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { ownerReference } from '../../owner-reference.js';
import { allDone } from '../../runtime/all-done.js';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '../../runtime/kube.js';
import { mergePatch } from '../../runtime/merge-patch.js';
import type { Context } from './context.js';
import { NAMESPACES, ourLabels, projectPath, type Secret, secretsPath } from './resources.js';

/**
 * The name of the Secret that was copied. A copy has no LABEL_PROJECT: the data plane finds projects' Secrets by that
 * label.
 */
export const LABEL_COPY = 'slipway.dev/copy-of';
/** The uid and resourceVersion of the Secret that was copied. */
const ANNOTATION_COPIED = 'slipway.dev/copied-version';

export const COPIES = `${NAMESPACES}/${SYSTEM_NAMESPACE}/secrets`;
/** No Secret that is copied has a dot in its name, so no two projects share the name of a copy. */
export const copyName = (name: string, ref: string) => `${name}.${ref}`;
const copyPath = (name: string, ref: string) => `${COPIES}/${copyName(name, ref)}`;

/** By name: whether the Project names that Secret. */
const COPIED: Record<string, (spec: Project['spec']) => boolean> = {
  [SECRETS.keys.name]: () => true,
  [SECRETS.env.name]: ({ env }) => env?.secretRef.name === SECRETS.env.name,
  [SECRETS.git.name]: ({ source }) => source?.tokenSecretRef?.name === SECRETS.git.name,
  [SECRETS.jwt.name]: ({ jwtSecretRef }) => jwtSecretRef?.name === SECRETS.jwt.name,
  [SECRETS.notifications.name]: ({ notifications }) =>
    notifications?.slackWebhookSecretRef?.name === SECRETS.notifications.name,
};
const isNamed = (name: string, { spec }: Project) => COPIED[name]?.(spec) ?? false;

/** The operator's cache keeps no values of copies, which are as large as tenants make them. */
export const withoutValues = ({ metadata }: Secret): Secret => ({ metadata });

/**
 * Creates each Secret that the Project names, that is missing and that has a copy. Returns the names of those created.
 */
export async function restoreSecrets(context: Context): Promise<string[]> {
  const { deps, ref, project } = context;
  const isMissing = (name: string) => isNamed(name, project) && !deps.secrets.get(name, namespaceOf(ref));
  const names = Object.keys(COPIED).filter(isMissing);
  const restored = await allDone(names.map((name) => restore(context, name)));
  return names.filter((_, index) => restored[index]);
}

async function restore({ deps: { client }, ref, project }: Context, name: string): Promise<boolean> {
  const copy = await find<Secret>(client, copyPath(name, ref));
  if (!copy || !isOf(copy, project)) return false;
  // The cache may be behind an owner who removed the Secret from the Project a moment ago.
  const current = await client.get<Project>(projectPath(ref));
  if (current.metadata.uid !== project.metadata.uid || !isNamed(name, current)) return false;
  const { data = {}, type = 'Opaque' } = copy;
  try {
    const metadata = { name, labels: ourLabels(ref) };
    await client.create<Secret>(secretsPath(ref), { apiVersion: 'v1', kind: 'Secret', metadata, type, data });
    return true;
  } catch (error) {
    if (isConflict(error)) return false;
    throw error;
  }
}

/** Makes the copies equal to the Secrets, and drops those of Secrets that the Project names no more. */
export async function copySecrets(context: Context): Promise<void> {
  const { project, ref, deps } = context;
  await allDone(
    Object.keys(COPIED).map(async (name) => {
      if (isNamed(name, project)) await copy(context, name);
      else if (deps.copies.get(copyName(name, ref), SYSTEM_NAMESPACE)) await remove(deps.client, copyPath(name, ref));
    }),
  );
}

async function copy({ deps, ref, project }: Context, name: string): Promise<void> {
  const { client } = deps;
  const [seen, known] = [
    deps.secrets.get(name, namespaceOf(ref)),
    deps.copies.get(copyName(name, ref), SYSTEM_NAMESPACE),
  ];
  if (seen && known && isOf(known, project) && known.metadata.annotations?.[ANNOTATION_COPIED] === versionOf(seen))
    return;
  // The copy is read before the Secret: if another operator copies a newer Secret meanwhile, the write below is a
  // conflict.
  const before = await find<Secret>(client, copyPath(name, ref));
  const secret = await find<Secret>(client, `${secretsPath(ref)}/${name}`);
  if (!secret) return;
  const after = {
    metadata: {
      labels: { [LABEL_COPY]: name, [LABEL_MANAGED_BY]: MANAGED_BY },
      annotations: { [ANNOTATION_COPIED]: versionOf(secret) },
      ownerReferences: [ownerReference({ ref, uid: project.metadata.uid as string })],
    },
    data: secret.data ?? {},
  };
  if (!before) {
    const metadata = { name: copyName(name, ref), ...after.metadata };
    await client.create<Secret>(COPIES, { ...after, apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque' });
    return;
  }
  const { labels = {}, annotations = {}, ownerReferences = [], resourceVersion } = before.metadata;
  const patch = mergePatch({ metadata: { labels, annotations, ownerReferences }, data: before.data ?? {} }, after);
  if (!patch) return;
  const metadata = { ...(patch.metadata as object), resourceVersion };
  deps.copies.learn(await client.patch<Secret>(copyPath(name, ref), { ...patch, metadata }));
}

const versionOf = ({ metadata: { uid, resourceVersion } }: KubeObject) => `${uid}/${resourceVersion}`;

/** False for the copy of an earlier project of this name, whose finalizer was taken off. */
const isOf = ({ metadata }: Secret, project: Project) =>
  metadata.ownerReferences?.some(({ uid }) => uid === project.metadata.uid) ?? false;

const find = <T>(client: KubeClient, path: string): Promise<T | undefined> =>
  client.get<T>(path).catch((error) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });

const remove = (client: KubeClient, path: string): Promise<void> =>
  client.delete(path).then(
    () => undefined,
    (error) => {
      if (!isNotFound(error)) throw error;
    },
  );
