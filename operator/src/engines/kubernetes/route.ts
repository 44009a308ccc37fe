/**
 * Routes requests for a host to a program of the platform: an Ingress or an HTTPRoute, beside the program's Service.
 * `<ref>.<domain>` leads to the gateway, the domain itself to the management API. Pure, but for `routeOutcome`, which
 * reads the Gateway's status.
 */
import {
  LABEL_MANAGED_BY,
  MANAGED_BY,
  namespaceOf,
  PROGRAMS,
  projectUrlByHost,
  type Site,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import type { KubeObject } from '../../runtime/kube.js';
import type { EngineOutcome, EngineProject } from '../engine.js';
import type { Children, DesiredObject } from './children/children.js';
import { childOf } from './objects.js';

const PORT = 80;
const COMPONENT = 'route';

/** Undefined where the site routes by itself. */
export function routeOf(project: EngineProject, site: Site): DesiredObject | undefined {
  const name = namespaceOf(project.ref);
  const { hostname } = new URL(projectUrlByHost(site, project.ref));
  const route = routeTo(PROGRAMS.dataplane, hostname, `${name}-tls`, site);
  return route && childOf(project, { ...route, name, namespace: SYSTEM_NAMESPACE, component: COMPONENT });
}

/** It goes with the namespace that it is in. */
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

/** `ownSecret`: where cert-manager puts a certificate of this host alone. */
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

/** An Ingress tells nothing of itself; a Gateway says why it takes no route. */
export function routeOutcome(live: RouteStatus | undefined): EngineOutcome {
  const conditions = live?.status?.parents?.flatMap((parent) => parent.conditions ?? []) ?? [];
  const refusal = conditions.find(({ type, status }) => type === 'Accepted' && status === 'False');
  if (!refusal) return { state: 'ready', value: undefined };
  const message = `the Gateway does not take the route: ${refusal.message ?? refusal.reason}`;
  return { state: 'failed', reason: refusal.reason ?? 'NotAccepted', message, retry: true };
}

/** It is owned by the Project, so this is only for requests to end at once. */
export async function removeRoute(children: Children, ref: string): Promise<void> {
  for (const kind of ['Ingress', 'HTTPRoute']) {
    if (children.serves(kind)) await children.remove(kind, SYSTEM_NAMESPACE, namespaceOf(ref));
  }
}
