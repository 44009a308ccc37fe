import { suite, type Test } from 'uvu';
import { widgets } from './definition.js';
import type { Json, Target } from './target.js';

/** Objects that the cases of one run share: a namespace and a CustomResourceDefinition. */
export interface Fixture {
  target: Target;
  namespace: string;
  group: string;
  /** Collections of the namespace. */
  configMaps: string;
  secrets: string;
  widgets: string;
  configMap(name: string, more?: Json): Json;
  widget(name: string, spec?: Json, more?: Json): Json;
}

export type Cases = (test: Test, fixture: Fixture) => void;

export async function setUp(target: Target): Promise<Fixture> {
  const namespace = target.run;
  const group = `${target.run}.example.com`;
  await made(target, '/api/v1/namespaces', { metadata: { name: namespace } });
  await made(target, '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', widgets(group));
  const inNamespace = `namespaces/${namespace}`;
  const fixture: Fixture = {
    ...{ target, namespace, group },
    configMaps: `/api/v1/${inNamespace}/configmaps`,
    secrets: `/api/v1/${inNamespace}/secrets`,
    widgets: `/apis/${group}/v1/${inNamespace}/widgets`,
    configMap: (name, more = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, ...more }),
    widget: (name, spec = { size: 1 }, more = {}) => ({
      ...{ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name }, spec },
      ...more,
    }),
  };
  await target.until(fixture.widgets, ({ code }) => code === 200);
  return fixture;
}

async function tearDown({ target, namespace, group }: Fixture): Promise<void> {
  await target.send('DELETE', `/api/v1/namespaces/${namespace}`);
  await target.until(`/api/v1/namespaces/${namespace}`, ({ code }) => code === 404);
  await target.send('DELETE', `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.${group}`);
  target.close();
}

async function made(target: Target, path: string, body: Json): Promise<void> {
  const { code, text } = await target.send('POST', path, body);
  if (code !== 201) throw new Error(`${path} answered ${code}: ${text}`);
}

/** Registers the groups of cases. `end` runs after the last case. */
export function register(fixture: Fixture, groups: Record<string, Cases>, end: () => Promise<void>): void {
  const entries = Object.entries(groups);
  for (const [index, [name, cases]] of entries.entries()) {
    const test = suite(`${fixture.target.name}: ${name}`);
    cases(test, fixture);
    if (index === entries.length - 1) {
      test.after(async () => {
        await tearDown(fixture);
        await end();
      });
    }
    test.run();
  }
}
