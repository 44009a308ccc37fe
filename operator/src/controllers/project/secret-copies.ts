/**
 * Copies a project's Secrets to the platform's own namespace. If the project's namespace is deleted, the project gets
 * its keys and variables back from the copies. A copy is restored only by creating a missing Secret, so it never
 * overwrites a newer Secret. Garbage collection deletes the copies of a deleted Project.
 */

import { type Project } from '@slipway/crds';
import { LABEL_MANAGED_BY, MANAGED_BY, namespaceOf, SECRETS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { allDone } from '../../runtime/all-done.js';
import { mergePatch } from '../../runtime/merge-patch.js';
import { ownerReference } from '../../runtime/owner-reference.js';
import type { Context } from './context.js';
import { NAMESPACES, ourLabels, projectPath, type Secret, secretsPath } from './resources.js';

/**
 * Label with the name of the copied Secret. A copy has no LABEL_PROJECT, because the data plane finds projects' Secrets
 * by that label.
 */
export const LABEL_COPY = 'slipway.dev/copy-of';
/** Annotation with the uid and the resourceVersion of the copied Secret. */
const ANNOTATION_COPIED = 'slipway.dev/copied-version';

export const COPIES = `${NAMESPACES}/${SYSTEM_NAMESPACE}/secrets`;
/** Unique per project: no copied Secret has a dot in its name. */
export const copyName = (name: string, ref: string) => `${name}.${ref}`;
const copyPath = (name: string, ref: string) => `${COPIES}/${copyName(name, ref)}`;

/** The copied Secrets by name: whether the Project's spec names the Secret. */
const COPIED: Record<string, (spec: Project['spec']) => boolean> = {
  [SECRETS.keys.name]: () => true,
  [SECRETS.env.name]: ({ env }) => env?.secretRef.name === SECRETS.env.name,
  [SECRETS.git.name]: ({ source }) =>
    [source?.tokenSecretRef?.name, source?.deployKeySecretRef?.name].includes(SECRETS.git.name),
  [SECRETS.jwt.name]: ({ jwtSecretRef }) => jwtSecretRef?.name === SECRETS.jwt.name,
  [SECRETS.notifications.name]: ({ notifications }) =>
    notifications?.slackWebhookSecretRef?.name === SECRETS.notifications.name,
};
const isNamed = (name: string, { spec }: Project) => COPIED[name]?.(spec) ?? false;

/** Drops the values: the operator's cache does not keep those of copies, which are as large as tenants make them. */
export const withoutValues = ({ metadata }: Secret): Secret => ({ metadata });

/** Creates each missing Secret that the Project names and that has a copy. Returns the names of the created ones. */
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
  // The cache may be behind an owner who has just removed the Secret from the Project.
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

/** Makes the copies equal to the Secrets. Drops copies of Secrets that the Project no longer names. */
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
  // The copy is read before the Secret. If another operator has copied a newer Secret by then, the write below fails
  // with a conflict.
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

/** False for the copy of an earlier project of this name, whose finalizer was removed by hand. */
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
