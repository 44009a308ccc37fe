import { readSite } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { previewName } from '@slipway/sites';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Children } from './children/children.js';
import { apiRouteOf, ensureRoutes, removeRoutes, routeOf } from './route.js';

const PROJECT = {
  ref: 'shop-abc',
  uid: 'the-uid',
  owner: 'ann@example.com',
  region: 'eu-central',
  plan: 'free',
  suspended: false,
} as Parameters<typeof routeOf>[0];

const site = (...lines: string[]) => readSite(['publicUrl: https://slipway.example.com:8443', ...lines].join('\n'));

interface Route {
  kind: string;
  metadata: { name: string; namespace?: string; annotations?: Record<string, string>; ownerReferences?: unknown[] };
  spec: { rules: { host?: string }[]; tls?: unknown; hostnames?: string[]; ingressClassName?: string };
}
const routes = (from: ReturnType<typeof site>) => [apiRouteOf(from), routeOf(PROJECT, from)] as unknown as Route[];

test('the domain routes to the API, and a name below it to the gateway, both in the platform’s namespace', () => {
  const [api, project] = routes(site('ingress: {className: nginx}')) as [Route, Route];
  assert.equal(
    [api, project].map(({ kind, metadata, spec }) => [
      kind,
      metadata.namespace,
      spec.ingressClassName,
      spec.rules[0]?.host,
    ]),
    [
      ['Ingress', 'slipway-system', 'nginx', 'slipway.example.com'],
      ['Ingress', 'slipway-system', 'nginx', 'shop-abc.slipway.example.com'],
    ],
  );
  assert.match(JSON.stringify(api), /"service":\{"name":"slipway-api"/);
  assert.match(JSON.stringify(project), /"service":\{"name":"slipway-dataplane"/);
  assert.is(project.metadata.ownerReferences?.length, 1);
  assert.is(api.metadata.ownerReferences, undefined);
});

test('a name below the domain of projects routes to the gateway, and the API keeps its host', () => {
  const hosts = routes(site('projectsDomain: projects.example.net')).map(({ spec }) => spec.rules[0]?.host);
  assert.equal(hosts, ['slipway.example.com', 'shop-abc.projects.example.net']);
});

test('a route has no TLS without a certificate or an issuer, because a proxy may terminate TLS', () => {
  assert.equal(
    routes(site()).map(({ spec }) => spec.tls),
    [undefined, undefined],
  );
});

test('an issuer makes a certificate for each host, and an existing certificate is used for all hosts', () => {
  const issued = routes(site('ingress: {clusterIssuer: letsencrypt}'));
  assert.equal(
    issued.map(({ spec, metadata }) => [spec.tls, metadata.annotations?.['cert-manager.io/cluster-issuer']]),
    [
      [[{ hosts: ['slipway.example.com'], secretName: 'slipway-api-tls' }], 'letsencrypt'],
      [[{ hosts: ['shop-abc.slipway.example.com'], secretName: 'p-shop-abc-tls' }], 'letsencrypt'],
    ],
  );
  const wildcard = routes(site('ingress: {tlsSecretName: wildcard}'));
  assert.ok(wildcard.every(({ spec }) => JSON.stringify(spec.tls).includes('"secretName":"wildcard"')));
});

test('a preview has a route of its own, with the same TLS as the site', () => {
  const preview = previewName('shop-abc', 'feature/x');
  const routeOfPreview = (...lines: string[]) => routeOf(PROJECT, site(...lines), preview) as unknown as Route;
  const issued = routeOfPreview('ingress: {clusterIssuer: letsencrypt}');
  const host = `${preview}.slipway.example.com`;
  assert.equal(
    [issued.metadata.name, issued.spec.rules[0]?.host, issued.spec.tls],
    [`p-${preview}`, host, [{ hosts: [host], secretName: `p-${preview}-tls` }]],
  );
  assert.is(issued.metadata.ownerReferences?.length, 1);
  const attached = routeOfPreview('ingress: {kind: HTTPRoute, gateway: {name: public, namespace: gateways}}');
  assert.equal(attached.spec.hostnames, [host]);
});

/** Replaces the objects of a cluster: remembers those that are applied, by kind and name. */
class AppliedRoutes {
  readonly objects = new Map<string, KubeObject & { kind: string }>();

  constructor(private readonly kinds: readonly string[]) {}
  serves(kind: string): boolean {
    return this.kinds.includes(kind);
  }
  get(kind: string, _namespace: string, name: string): KubeObject | undefined {
    return this.objects.get(`${kind} ${name}`);
  }
  list(kind: string): KubeObject[] {
    return [...this.objects.values()].filter((object) => object.kind === kind);
  }
  async ensure(wanted: KubeObject & { kind: string }): Promise<undefined> {
    this.objects.set(`${wanted.kind} ${wanted.metadata.name}`, wanted);
  }
  async remove(kind: string, _namespace: string, name: string): Promise<void> {
    this.objects.delete(`${kind} ${name}`);
  }
  names(): string[] {
    return [...this.objects.keys()].sort();
  }
}

for (const [kind, ingress] of [
  ['Ingress', 'ingress: {className: nginx}'],
  ['HTTPRoute', 'ingress: {kind: HTTPRoute, gateway: {name: public, namespace: gateways}}'],
] as const) {
  test(`the routes of previews follow the previews that there are, as ${kind}`, async () => {
    const applied = new AppliedRoutes(['Ingress', 'HTTPRoute']);
    const children = applied as unknown as Children;
    const [one, two] = ['one', 'two'].map((branch) => previewName('shop-abc', branch)) as [string, string];
    const named = (...hosts: string[]) => hosts.map((host) => `${kind} p-${host}`).sort();
    await ensureRoutes(children, PROJECT, site(ingress), [one, two]);
    assert.equal(applied.names(), named('shop-abc', one, two));
    await ensureRoutes(children, PROJECT, site(ingress), [two]);
    assert.equal(applied.names(), named('shop-abc', two));
    await removeRoutes(children, 'shop-abc');
    assert.equal(applied.names(), []);
  });
}

test('the routes of previews are removed when the installation stops to make routes', async () => {
  const applied = new AppliedRoutes(['Ingress']);
  const children = applied as unknown as Children;
  await ensureRoutes(children, PROJECT, site('ingress: {className: nginx}'), [previewName('shop-abc', 'one')]);
  assert.equal(await ensureRoutes(children, PROJECT, site('ingress: {kind: none}')), []);
  assert.equal(applied.names(), ['Ingress p-shop-abc']);
});

test('a site with a Gateway gets HTTPRoutes, and a site that routes by itself gets no objects', () => {
  const attached = routes(site('ingress: {kind: HTTPRoute, gateway: {name: public, namespace: gateways}}'));
  assert.equal(
    attached.map(({ kind, spec }) => [kind, spec.hostnames]),
    [
      ['HTTPRoute', ['slipway.example.com']],
      ['HTTPRoute', ['shop-abc.slipway.example.com']],
    ],
  );
  assert.equal(routes(site('ingress: {kind: none}')), [undefined, undefined]);
});

test.run();
