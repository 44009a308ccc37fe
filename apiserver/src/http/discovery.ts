/**
 * Discovery: the served groups, versions and resources. The documents are computed again only after a definition
 * changed.
 */
import { createHash } from 'node:crypto';
import { openApiDocuments } from '../openapi/index.js';
import type { Registry } from '../resources/registry.js';
import type { Resource } from '../resources/resource.js';
import type { JsonObject } from '../schema/index.js';

/** The Kubernetes release whose behaviour this server implements. */
export const VERSION = {
  ...{ major: '1', minor: '34', gitVersion: 'v1.34.0+slipway', gitCommit: '', gitTreeState: 'clean' },
  ...{
    buildDate: '1970-01-01T00:00:00Z',
    goVersion: '',
    compiler: 'node',
    platform: `${process.platform}/${process.arch}`,
  },
};

export class Discovery {
  readonly #registry: Registry;
  #generation = -1;
  #documents = new Map<string, string>();

  constructor(registry: Registry) {
    this.#registry = registry;
  }

  /** Returns the document at a path such as `/apis/slipway.dev/v1alpha1`, as JSON. */
  document(path: string): string | undefined {
    if (this.#generation !== this.#registry.generation) {
      this.#generation = this.#registry.generation;
      this.#documents = documents(this.#registry.all());
    }
    const trimmed = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
    return this.#documents.get(trimmed);
  }
}

function documents(resources: readonly Resource[]): Map<string, string> {
  const made = new Map<string, JsonObject>();
  made.set('/api', {
    kind: 'APIVersions',
    versions: ['v1'],
    serverAddressByClientCIDRs: [],
  });
  const groups = groupList(resources);
  made.set('/apis', { kind: 'APIGroupList', apiVersion: 'v1', groups });
  for (const group of groups) made.set(`/apis/${group.name}`, { kind: 'APIGroup', apiVersion: 'v1', ...group });
  for (const [apiVersion, members] of byVersion(resources)) {
    made.set(pathOf(apiVersion), {
      ...{ kind: 'APIResourceList', apiVersion: 'v1', groupVersion: apiVersion },
      resources: members.flatMap(discovered),
    });
  }
  for (const [path, document] of openApiDocuments(resources)) made.set(path, document);
  return new Map([...made].map(([path, document]) => [path, JSON.stringify(document)]));
}

const pathOf = (apiVersion: string) => (apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`);

function byVersion(resources: readonly Resource[]): Map<string, Resource[]> {
  return Map.groupBy(resources, ({ apiVersion }) => apiVersion);
}

function groupList(resources: readonly Resource[]) {
  const groups = Map.groupBy(
    resources.filter(({ group }) => group !== ''),
    ({ group }) => group,
  );
  return [...groups].map(([name, members]) => {
    const versions = [...new Set(members.map(({ version }) => version))]
      .sort(byPriority)
      .map((version) => ({ groupVersion: `${name}/${version}`, version }));
    return { name, versions, preferredVersion: versions[0] };
  });
}

/** Sorts stable versions first, then beta, then alpha. Within each, newest first. */
function byPriority(a: string, b: string): number {
  const rank = (version: string) => {
    const match = /^v(\d+)(?:(alpha|beta)(\d+))?$/.exec(version);
    if (!match) return [-1, 0, 0];
    return [match[2] === undefined ? 2 : match[2] === 'beta' ? 1 : 0, Number(match[1]), Number(match[3] ?? 0)];
  };
  const [left, right] = [rank(a), rank(b)];
  for (let index = 0; index < 3; index++) {
    const difference = (right[index] as number) - (left[index] as number);
    if (difference !== 0) return difference;
  }
  return a < b ? -1 : 1;
}

function discovered(resource: Resource): JsonObject[] {
  const { plural, singular, namespaced, kind, verbs, shortNames, categories, subresources, storage } = resource;
  const main = {
    ...{ name: plural, singularName: singular, namespaced, kind, verbs },
    ...(shortNames.length > 0 && { shortNames }),
    ...(categories.length > 0 && { categories }),
    storageVersionHash: `${createHash('sha256').update(`${storage}/${kind}`).digest('base64').slice(0, 11)}=`,
  };
  const subordinate = subresources.map((name) => ({
    ...{ name: `${plural}/${name}`, singularName: '', namespaced, kind },
    verbs: name === 'status' ? ['get', 'patch', 'update'] : ['update'],
  }));
  return [main, ...subordinate];
}
