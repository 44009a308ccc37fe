import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { FORMS_PORT, PROGRAMS, readSite } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { GENERATED, manifestFiles } from './files.js';
import { RIGHTS } from './rights.js';
import { BASE_SITE, KIND_SITE, TEST_SITE } from './sites.js';

const manifests = fileURLToPath(new URL('../../manifests', import.meta.url));
const files = manifestFiles();
const STALE = 'stale: run `npm run generate`';

test('manifests/ has the files that cdk8s/src generates, and no other files', () => {
  const stored = GENERATED.flatMap((folder) =>
    readdirSync(path.join(manifests, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(manifests, path.join(entry.parentPath, entry.name))),
  );
  assert.equal(stored.sort(), [...files.keys()].sort(), STALE);
});

for (const [file, text] of files) {
  test(`manifests/${file} is what cdk8s/src generates`, () => {
    assert.is(readFileSync(path.join(manifests, file), 'utf8'), text, STALE);
  });
}

test('every kustomization names each file of its folder', () => {
  const folders = [...files.keys()].filter((file) => file.endsWith('kustomization.yaml')).map(path.dirname);
  for (const folder of folders) {
    const text = files.get(`${folder}/kustomization.yaml`) as string;
    const inFolder = [...files.keys()]
      .filter((file) => path.dirname(file) === folder)
      .map((file) => path.basename(file));
    for (const file of inFolder) assert.ok(file === 'kustomization.yaml' || text.includes(file), `${folder}/${file}`);
  }
});

test('no rule of a program has a wildcard, or allows the program to extend its own rights', () => {
  const rules = Object.values(RIGHTS).flatMap(({ cluster, namespaced }) =>
    [cluster, ...Object.values(namespaced)].flat(),
  );
  const listed = rules.flatMap(({ apiGroups = [], resources = [], verbs }) => [...apiGroups, ...resources, ...verbs]);
  assert.equal(
    listed.filter(
      (word) => word.includes('*') || ['bind', 'escalate', 'impersonate', 'roles', 'clusterroles'].includes(word),
    ),
    [],
  );
});

test('every container of the platform runs as nobody, without capabilities, on a read-only root file system', () => {
  const pods = [...files]
    .filter(([file]) => /^(base|components)\//.test(file) && !file.endsWith('site.yaml'))
    .flatMap(([, text]) => parseAllDocuments(text).map((document) => document.toJS()))
    .flatMap(({ spec }) => spec?.template?.spec ?? []);
  assert.is(pods.length, 10);
  for (const { securityContext, containers } of pods) {
    assert.is(securityContext.runAsNonRoot, true);
    assert.ok(securityContext.runAsUser > 0);
    for (const { securityContext: own, resources } of containers) {
      assert.equal(own, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ['ALL'] },
      });
      assert.ok(resources.requests.cpu && resources.requests.memory && resources.limits.memory);
    }
  }
});

test('the pod of tenants’ functions may reach IPv6 addresses only of pods that it needs', () => {
  const { spec } = parse(files.get('components/functions/network.yaml') as string);
  assert.ok(spec.egress.length > 0);
  for (const { to } of spec.egress) {
    assert.ok(to?.length > 0, 'a rule without peers allows every address');
    for (const { ipBlock, podSelector } of to) {
      if (ipBlock) assert.not.match(ipBlock.cidr, ':');
      else assert.ok(podSelector?.matchLabels, 'pods by their labels');
    }
  }
});

test('only the pods of sites may reach the API’s port for entries of forms, which only their component opens', () => {
  const policies = [...files]
    .filter(([file]) => /^(base|components)\/.*network\.yaml$/.test(file))
    .flatMap(([file, text]) => parseAllDocuments(text).map((document) => ({ file, ...document.toJS() })));
  assert.ok(policies.length > 10);
  const nameIn = ({ matchLabels }: { matchLabels?: Record<string, string> } = {}) =>
    matchLabels?.['app.kubernetes.io/name'];
  const allows = ({ ports }: { ports?: { port: number }[] }) => !ports || ports.some(({ port }) => port === FORMS_PORT);
  const into = policies
    .filter(({ spec }) => nameIn(spec.podSelector) === PROGRAMS.api)
    .flatMap(({ file, spec }) =>
      (spec.ingress ?? []).filter(allows).map(({ from }: { from: unknown }) => [file, from]),
    );
  const pods = (name: string) => [{ podSelector: { matchLabels: { 'app.kubernetes.io/name': name } } }];
  assert.equal(into, [['components/hosting/forms-network.yaml', pods(PROGRAMS.hosting)]]);
  type Peers = { to?: { podSelector?: object }[] };
  const sources = policies
    .filter(({ spec }) =>
      (spec.egress ?? [])
        .filter(allows)
        .some(({ to }: Peers) => to?.some((peer) => nameIn(peer.podSelector) === PROGRAMS.api)),
    )
    .map(({ spec }) => nameIn(spec.podSelector));
  assert.equal(sources, [PROGRAMS.hosting]);
  const { spec } = parse(files.get('components/hosting/forms-service.yaml') as string);
  assert.equal(
    spec.ports.map(({ port }: { port: number }) => port),
    [FORMS_PORT],
  );
  assert.not.match(files.get('base/programs.yaml') as string, /forms/i);
});

test('the programs accept the settings of every installation', () => {
  for (const site of [BASE_SITE, stringify(KIND_SITE), stringify(TEST_SITE)]) assert.ok(readSite(site).publicUrl);
});

test('an overlay replaces the settings of the base under the same name', () => {
  for (const overlay of ['kind', 'test']) {
    const { configMapGenerator } = parse(files.get(`overlays/${overlay}/kustomization.yaml`) as string);
    const [{ behavior, name }] = configMapGenerator;
    assert.equal([behavior, name], ['replace', 'slipway-site']);
  }
});

test.run();
