import { readSite } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { apiRouteOf, routeOf } from './route.js';

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

test('the domain leads to the API and a name below it to the gateway, both from the namespace of the platform', () => {
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

test('a route leads from below the domain of projects to the gateway, and the API keeps its host', () => {
  const hosts = routes(site('projectsDomain: projects.example.net')).map(({ spec }) => spec.rules[0]?.host);
  assert.equal(hosts, ['slipway.example.com', 'shop-abc.projects.example.net']);
});

test('without a certificate of the site or an issuer there is no TLS, as something before the cluster may end it', () => {
  assert.equal(
    routes(site()).map(({ spec }) => spec.tls),
    [undefined, undefined],
  );
});

test('an issuer makes a certificate for each, one that is there is for all', () => {
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

test('a Gateway gets routes instead, and a site that routes by itself nothing', () => {
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
