/**
 * The type of sites. A site has no database and no services, but an origin of its own that serves the output of builds.
 */
import {
  type Build,
  isOfSite,
  isPushCheck,
  isSuspended,
  MOST_PREVIEWS,
  type ProjectStatus,
  previewBuildsOf,
} from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { siteOf } from '../controllers/build/order.js';
import { BY_NAMESPACE } from '../controllers/build/resources.js';
import { engineProject, isToBeRetained, ready } from '../controllers/project/context.js';
import type { ProjectType } from '../controllers/project/project-type.js';
import { retainNamespace } from '../controllers/project/steps/namespace.js';
import { reportSiteUsage, SITE_HAS_ROOM } from '../controllers/project/steps/usage.js';
import { ensureWebhookSecret } from '../controllers/project/steps/webhook-secret.js';
import { deploymentOf, latestOf, messageOfBuild } from './latest-build.js';

export const frontend: ProjectType = {
  conditions: ['IsolationReady', 'KeysReady', 'HostingReady'],
  paused: new Set(['HostingReady']),

  async provision(context, stages, shown) {
    const { isolation, hosting } = context.deps.capabilities;
    // The type is not available without hosting.
    if (!hosting) return;
    const project = engineProject(context);
    const isMade = await stages.run({
      isolation: { condition: 'IsolationReady', run: () => isolation.ensure(project, undefined) },
      keys: { condition: 'KeysReady', run: () => ensureWebhookSecret(context) },
    });
    if (!isMade) return;
    const builds = context.deps.builds.find(BY_NAMESPACE, namespaceOf(context.ref));
    const previews = servedPreviews(builds);
    const sites = previews.map((build) => siteOf(build, context.ref));
    const isServed = await stages.run({
      hosting: { condition: 'HostingReady', run: () => hosting.ensure(project, sites) },
    });
    if (!isServed) return;
    const latest = latestOf(builds.filter((build) => isOfSite(build) && !isPushCheck(build)));
    if (latest) shown.message = messageOfBuild(latest);
    shown.previews = previews.map((build) => viewOf(build, hosting.siteUrl(siteOf(build, context.ref))));
    shown.services = {
      hosting: isSuspended(context.project)
        ? { up: false, status: 'suspended' }
        : { up: true, status: 'running', endpoint: hosting.siteUrl(project.ref) },
    };
    await stages.run({
      usage: { condition: SITE_HAS_ROOM, advisory: true, run: () => reportSiteUsage(context, shown) },
      deployment: { condition: 'Ready', run: () => deploymentOf(context, latest) },
    });
  },

  url: ({ capabilities }, ref) => capabilities.hosting?.siteUrl(ref) ?? '',

  healthy: () => 'the site answers',

  async remove(context) {
    await context.deps.capabilities.hosting?.remove(context.ref);
    if (isToBeRetained(context.project)) await retainNamespace(context);
    else await context.deps.capabilities.builds.remove(context.ref);
    return ready;
  },

  removing: (project) => (isToBeRetained(project) ? 'closing the site, which is retained' : 'removing the site'),
};

/**
 * Returns the builds whose output a preview serves, the newest first. A preview beyond the limit of the plan is removed
 * soon.
 */
const servedPreviews = (builds: readonly Build[]): Build[] =>
  previewBuildsOf(builds).toReversed().slice(0, MOST_PREVIEWS);

const viewOf = ({ metadata, spec, status }: Build, url: string): NonNullable<ProjectStatus['previews']>[number] => ({
  branch: spec.preview as string,
  url,
  build: metadata.name,
  ...(status?.commit === undefined ? {} : { commit: status.commit }),
});
