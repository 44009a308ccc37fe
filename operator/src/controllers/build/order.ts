/**
 * Makes the order of a build: its source, settings, variables and limits. In: a Project and a Build. Out: the order for
 * the engine.
 */
import { createHash, randomBytes } from 'node:crypto';
import { type Build, branchIn, type Project, revisionOfBranch } from '@slipway/crds';
import { BUILD_LIMITS, namespaceOf, variablesFor } from '@slipway/installation';
import { isNotFound, type Secret } from '@slipway/kubernetes';
import { previewName } from '@slipway/sites';
import type { BuildOrder } from '../../capabilities/index.js';
import { plainText } from '../project/resources.js';
import type { BuildReconcilerDeps } from './resources.js';

export const newTicket = () => randomBytes(32).toString('base64url');
export const digestOf = (ticket: string) => createHash('sha256').update(ticket).digest('hex');

/** Returns the site that the Build's output belongs to: the project's own, or a preview. */
export const siteOf = ({ spec: { preview } }: Build, ref: string) =>
  preview === undefined ? ref : previewName(ref, preview);

export async function orderOf(
  deps: BuildReconcilerDeps,
  project: Project,
  build: Build,
): Promise<Omit<BuildOrder, 'ticket'>> {
  const { source, build: settings = {}, plan = 'free' } = project.spec;
  const { revision, preview } = build.spec;
  const branch = preview === undefined ? (source?.productionBranch ?? 'main') : revisionOfBranch(preview);
  return {
    ref: project.metadata.name,
    name: build.metadata.name,
    site: siteOf(build, project.metadata.name),
    repoUrl: source?.repoUrl as string,
    revision: revision ?? branch,
    branch: branchOf(build, project),
    unless: build.spec.unless,
    submodules: source?.submodules ?? false,
    plan,
    settings: {
      installCommand: settings.installCommand,
      buildCommand: settings.buildCommand,
      outputDir: settings.outputDir,
      rootDir: settings.rootDir,
    },
    env: await variablesOf(deps, project, 'build'),
    limits: BUILD_LIMITS[plan],
  };
}

/** Returns the branch that the Build deploys. A revision that is a commit or a tag is of the production branch. */
function branchOf({ spec: { preview, revision } }: Build, { spec: { source } }: Project): string {
  if (preview !== undefined) return preview;
  return branchIn(revision) ?? source?.productionBranch ?? 'main';
}

/** Returns the variables for builds or for a container. A missing Secret, such as a deleted one, has none. */
export async function variablesOf(
  { client }: Pick<BuildReconcilerDeps, 'client'>,
  { metadata, spec }: Project,
  program: 'build' | 'runtime',
): Promise<Record<string, string>> {
  const name = spec.env?.secretRef.name;
  if (name === undefined) return {};
  const path = `/api/v1/namespaces/${namespaceOf(metadata.name)}/secrets/${name}`;
  const secret = await client.get<Secret>(path).catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
  return secret ? variablesFor(program, plainText(secret) as Record<string, string>) : {};
}
