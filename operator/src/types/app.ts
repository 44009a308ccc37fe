/** The type of apps. An app has an origin of its own, at which the container serves that a build made. */
import { isOfSite, isPushCheck } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { BY_NAMESPACE } from '../controllers/build/resources.js';
import { engineProject, isToBeRetained, ready } from '../controllers/project/context.js';
import type { ProjectType } from '../controllers/project/project-type.js';
import { ensureContainer } from '../controllers/project/steps/container.js';
import { linkOf } from '../controllers/project/steps/database-link.js';
import { retainNamespace } from '../controllers/project/steps/namespace.js';
import { ensureWebhookSecret } from '../controllers/project/steps/webhook-secret.js';
import { deploymentOf, latestOf, messageOfBuild } from './latest-build.js';

export const app: ProjectType = {
  conditions: ['IsolationReady', 'KeysReady', 'HostingReady', 'DatabaseLinked', 'ContainerReady'],
  paused: new Set(['HostingReady', 'DatabaseLinked', 'ContainerReady']),

  async provision(context, stages, shown) {
    const { isolation, hosting, apps } = context.deps.capabilities;
    // The type is not available without them.
    if (!hosting || !apps) return;
    const project = engineProject(context);
    const isMade = await stages.run({
      isolation: { condition: 'IsolationReady', run: () => isolation.ensure(project, undefined) },
      keys: { condition: 'KeysReady', run: () => ensureWebhookSecret(context) },
    });
    if (!isMade) return;
    const latest = latestOf(
      context.deps.builds
        .find(BY_NAMESPACE, namespaceOf(context.ref))
        .filter((build) => isOfSite(build) && !isPushCheck(build)),
    );
    if (latest) shown.message = messageOfBuild(latest);
    const linking = linkOf(context, apps);
    const runs = await stages.run({
      hosting: { condition: 'HostingReady', run: () => hosting.ensure(project, []) },
      link: { condition: 'DatabaseLinked', run: async () => (await linking).outcome },
      container: { condition: 'ContainerReady', run: async () => ensureContainer(context, apps, shown, await linking) },
    });
    if (!runs) return;
    await stages.run({ deployment: { condition: 'Ready', run: () => deploymentOf(context, latest) } });
  },

  url: ({ capabilities }, ref) => capabilities.hosting?.siteUrl(ref) ?? '',

  healthy: ({ app: container } = {}) => (container?.up ? 'the app serves' : 'nothing is deployed yet'),

  async remove(context) {
    const { hosting, apps, builds } = context.deps.capabilities;
    await hosting?.remove(context.ref);
    if (isToBeRetained(context.project)) {
      await apps?.stop(context.ref);
      await retainNamespace(context);
    } else {
      await builds.remove(context.ref);
      await apps?.remove(context.ref);
    }
    return ready;
  },

  removing: (project) => (isToBeRetained(project) ? 'ending the app, whose images are retained' : 'removing the app'),
};
