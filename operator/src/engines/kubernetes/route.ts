/**
 * What leads requests for `<ref>.<domain>` to the gateway: an Ingress or an HTTPRoute, beside the gateway's Service. Pure, but for
 * `routeOutcome`, which reads what the Gateway said.
 */
import { namespaceOf, PROGRAMS, projectUrlByHost, type Site, SYSTEM_NAMESPACE } from '@slipway/crds';
import type { KubeObject } from '../../runtime/kube.js';
import type { EngineOutcome, EngineProject } from '../engine.js';
import type { Children, DesiredObject } from './children/children.js';
import { childOf } from './objects.js';

const PORT = 80;
const COMPONENT = 'route';

/** Undefined where the site routes by itself. */
export function routeOf(project: EngineProject, site: Site): DesiredObject | undefined {
  if (site.ingress.kind === 'none') return undefined;
  return site.ingress.kind === 'Ingress' ? ingress(project, site) : httpRoute(project, site);
}

const hostOf = (project: EngineProject, site: Site) => new URL(projectUrlByHost(site.publicUrl, project.ref)).hostname;

function ingress(project: EngineProject, site: Site): DesiredObject {
  const { className, annotations, clusterIssuer } = site.ingress;
  const host = hostOf(project, site);
  const backend = { service: { name: PROGRAMS.dataplane, port: { number: PORT } } };
  const tls = tlsOf(project, site, host);
  return childOf(project, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'Ingress',
    name: namespaceOf(project.ref),
    namespace: SYSTEM_NAMESPACE,
    component: COMPONENT,
    annotations: { ...annotations, ...(clusterIssuer ? { 'cert-manager.io/cluster-issuer': clusterIssuer } : {}) },
    body: {
      spec: {
        ...(className ? { ingressClassName: className } : {}),
        rules: [{ host, http: { paths: [{ path: '/', pathType: 'Prefix', backend }] } }],
        ...(tls ? { tls } : {}),
      },
    },
  });
}

function tlsOf(project: EngineProject, { ingress: { tlsSecretName, clusterIssuer } }: Site, host: string) {
  const secretName = tlsSecretName ?? (clusterIssuer ? `${namespaceOf(project.ref)}-tls` : undefined);
  return secretName ? [{ hosts: [host], secretName }] : undefined;
}

function httpRoute(project: EngineProject, site: Site): DesiredObject {
  const { gateway, annotations } = site.ingress;
  return childOf(project, {
    apiVersion: 'gateway.networking.k8s.io/v1',
    kind: 'HTTPRoute',
    name: namespaceOf(project.ref),
    namespace: SYSTEM_NAMESPACE,
    component: COMPONENT,
    annotations,
    body: {
      spec: {
        parentRefs: [gateway],
        hostnames: [hostOf(project, site)],
        rules: [{ backendRefs: [{ name: PROGRAMS.dataplane, port: PORT }] }],
      },
    },
  });
}

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
