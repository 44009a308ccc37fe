/** Translates a Build resource into its form in the API. Pure. */
import { isOfSite, numberOfBuild, previewBuildsOf } from '@slipway/crds';
import type { BuildView } from './build.schema.js';
import type { SeenBuild } from './build-resources.js';

/** Returns the builds of a project that have a number, the newest first. */
export function viewsOf(builds: readonly SeenBuild[]): BuildView[] {
  const previews = previewBuildsOf(builds).map(({ metadata }) => metadata.name);
  const live = new Set([liveOf(builds), ...previews]);
  return builds.flatMap((build) => viewOf(build, live) ?? []).sort((a, b) => b.id - a.id);
}

/**
 * Returns the name of the live build of the site or app: the build of the last deploy, or the one to which that deploy
 * rolled back.
 */
export function liveOf(builds: readonly SeenBuild[]): string | undefined {
  const last = deployedInOrder(builds).at(-1);
  return last?.spec.deployment ?? last?.metadata.name;
}

/**
 * Returns the deploy or rollback that was live when the live build was deployed first. So a build that was rolled back
 * before the live one is skipped, and a repeated call after each rollback goes further back.
 */
export function versionBefore(builds: readonly SeenBuild[]): SeenBuild | undefined {
  const live = liveOf(builds);
  const deployed = deployedInOrder(builds);
  const index = deployed.findIndex(({ metadata }) => metadata.name === live);
  return index > 0 ? deployed[index - 1] : undefined;
}

/** Returns the deployed builds of the site or app, the first deployed first. */
const deployedInOrder = (builds: readonly SeenBuild[]): SeenBuild[] =>
  builds
    .filter((build) => isOfSite(build) && build.status?.phase === 'Deployed')
    .toSorted((a, b) => timeOf(a.status?.finishedAt) - timeOf(b.status?.finishedAt) || idOf(a) - idOf(b));

/** Returns the milliseconds of a `metav1.Time`. */
const timeOf = (time: string | undefined) => (time === undefined ? 0 : Date.parse(time));

const idOf = (build: SeenBuild) => numberOfBuild(build) ?? 0;

function viewOf(build: SeenBuild, live: ReadonlySet<string | undefined>): BuildView | undefined {
  const { metadata, spec, status = {} } = build;
  const id = numberOfBuild(build);
  if (id === undefined) return undefined;
  const { phase = 'Queued', message = '', steps = [], detected } = status;
  return {
    id,
    name: metadata.name,
    phase,
    message,
    trigger: spec.trigger ?? 'kubectl',
    revision: spec.revision ?? null,
    preview: spec.preview ?? null,
    commit: status.commit ?? null,
    rollback_to: spec.deployment ?? null,
    live: live.has(metadata.name),
    steps: steps.map(({ name, startedAt, finishedAt, exitCode }) => ({
      name,
      started_at: startedAt,
      finished_at: finishedAt ?? null,
      exit_code: exitCode ?? null,
    })),
    detected: detected ? detectedOf(detected) : null,
    created_at: metadata.creationTimestamp,
    started_at: status.startedAt ?? null,
    finished_at: status.finishedAt ?? null,
  };
}

const detectedOf = (used: NonNullable<NonNullable<SeenBuild['status']>['detected']>) => ({
  framework: used.framework ?? null,
  node_version: used.nodeVersion ?? null,
  package_manager: used.packageManager ?? null,
  install_command: used.installCommand ?? null,
  build_command: used.buildCommand ?? null,
  output_dir: used.outputDir ?? null,
});
