/**
 * Routes requests for a host to a program of the platform, by an Ingress or an HTTPRoute beside the program's Service.
 * `<ref>.<domain>` and the host of each preview route to the gateway, the domain itself to the management API.
 */

import {
  LABEL_MANAGED_BY,
  LABEL_PART,
  MANAGED_BY,
  namespaceOf,
  PROGRAMS,
  projectUrlByHost,
  type Site,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import type { EngineOutcome, EnginePart, EngineProject } from '../../capabilities/index.js';
import type { Children, DesiredObject } from './children/children.js';
import { ensureAll } from './children/ensure-all.js';
import { childOf } from './objects.js';

const PORT = 80;
const COMPONENT = 'route';

/**
 * Returns the route of a project, or of its preview with the name `host`. Undefined if the site routes by itself. Each
 * host has a route of its own, so a host that the cluster rejects does not affect the others.
 */
export function routeOf(project: EngineProject, site: Site, host: string = project.ref): DesiredObject | undefined {
  const name = namespaceOf(host);
  const { hostname } = new URL(projectUrlByHost(site, host));
  const route = routeTo(PROGRAMS.dataplane, hostname, `${name}-tls`, site);
  return route && childOf(project, { ...route, name, namespace: SYSTEM_NAMESPACE, component: COMPONENT });
}

/** Applies the routes of a project and of its previews, and deletes those of other previews. */
export async function ensureRoutes(
  children: Children,
  project: EngineProject,
  site: Site,
  previews: readonly string[] = [],
): Promise<EnginePart[]> {
  const routes = [project.ref, ...previews].flatMap((host) => routeOf(project, site, host) ?? []);
  await removePreviewRoutes(children, project.ref, routes);
  if (routes.length === 0) return [];
  const applied = await ensureAll(children, routes);
  const judged = routes.map(({ kind, metadata: { namespace, name } }) =>
    routeOutcome(children.get(kind, namespace, name)),
  );
  return [{ condition: 'RouteReady', outcome: judged.find(({ state }) => state !== 'ready') ?? applied }];
}

/** Returns the route of the API. It is deleted with its namespace. */
export function apiRouteOf(site: Site): DesiredObject | undefined {
  const name = PROGRAMS.api;
  const route = routeTo(name, new URL(site.publicUrl).hostname, `${name}-tls`, site);
  if (!route) return undefined;
  const { body, annotations, ...kind } = route;
  const labels = {
    'app.kubernetes.io/name': name,
    'app.kubernetes.io/instance': 'slipway',
    'app.kubernetes.io/component': COMPONENT,
    'app.kubernetes.io/part-of': 'slipway',
    [LABEL_MANAGED_BY]: MANAGED_BY,
  };
  return { ...kind, metadata: { name, namespace: SYSTEM_NAMESPACE, labels, annotations }, ...body };
}

interface Route {
  apiVersion: string;
  kind: string;
  annotations: Record<string, string>;
  body: object;
}

/** `ownSecret`: the Secret in which cert-manager stores a certificate of this host alone. */
function routeTo(service: string, host: string, ownSecret: string, { ingress }: Site): Route | undefined {
  if (ingress.kind === 'none') return undefined;
  if (ingress.kind === 'HTTPRoute') return httpRoute(service, host, ingress);
  const { className, annotations, clusterIssuer, tlsSecretName } = ingress;
  const backend = { service: { name: service, port: { number: PORT } } };
  const secretName = tlsSecretName ?? (clusterIssuer ? ownSecret : undefined);
  return {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    annotations: { ...annotations, ...(clusterIssuer ? { 'cert-manager.io/cluster-issuer': clusterIssuer } : {}) },
    body: {
      spec: {
        ...(className ? { ingressClassName: className } : {}),
        rules: [{ host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
        ...(secretName ? { tls: [{ hosts: [host], secretName }] } : {}),
      },
    },
  };
}

const httpRoute = (service: string, host: string, { gateway, annotations }: Site['ingress']): Route => ({
  apiVersion: 'gateway.networking.k8s.io/v1',
  kind: 'HTTPRoute',
  annotations,
  body: {
    spec: { parentRefs: [gateway], hostnames: [host], rules: [{ backendRefs: [{ name: service, port: PORT }] }] },
  },
});

interface RouteStatus extends KubeObject {
  status?: { parents?: { conditions?: { type: string; status: string; reason?: string; message?: string }[] }[] };
}

/** Returns the outcome of a route. A Gateway reports why it rejects a route. An Ingress has no such status. */
export function routeOutcome(live: RouteStatus | undefined): EngineOutcome {
  const conditions = live?.status?.parents?.flatMap((parent) => parent.conditions ?? []) ?? [];
  const refusal = conditions.find(({ type, status }) => type === 'Accepted' && status === 'False');
  if (!refusal) return { state: 'ready', value: undefined };
  const message = `the Gateway rejects the route: ${refusal.message ?? refusal.reason}`;
  return { state: 'failed', reason: refusal.reason ?? 'NotAccepted', message, retry: true };
}

const ROUTE_KINDS = ['Ingress', 'HTTPRoute'];

/** Deletes all routes, so that requests end at once. Otherwise they would be deleted with the Project, their owner. */
export async function removeRoutes(children: Children, ref: string): Promise<void> {
  for (const kind of ROUTE_KINDS) {
    if (children.serves(kind)) await children.remove(kind, SYSTEM_NAMESPACE, namespaceOf(ref));
  }
  await removePreviewRoutes(children, ref, []);
}

/** Deletes the routes of the project's previews, except `kept`. */
async function removePreviewRoutes(children: Children, ref: string, kept: readonly DesiredObject[]): Promise<void> {
  for (const kind of ROUTE_KINDS.filter((each) => children.serves(each))) {
    const names = new Set(kept.filter((route) => route.kind === kind).map(({ metadata }) => metadata.name));
    for (const { metadata } of children.list(kind, ref)) {
      const { namespace, name, labels } = metadata;
      const isOfPreview = namespace === SYSTEM_NAMESPACE && name !== namespaceOf(ref);
      if (isOfPreview && labels?.[LABEL_PART] === COMPONENT && !names.has(name)) {
        await children.remove(kind, namespace, name);
      }
    }
  }
}
