/** Helpers for tests of deploys: an API, an account, and its frontend and app projects, applied as kubectl does. */
import { API_VERSION, type Build } from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { type Answer, type CallOptions, register, startTestApi, type TestApi } from '../testing.js';

export const SECRET = 'webhook-secret-of-the-site';

export interface Site {
  id: number;
  ref: string;
}

interface Person {
  email: string;
  token: string;
}

export interface Deploys {
  api: TestApi;
  owner: Person;
  /** Resolves once the API shows the project; `spec` is added to that of a frontend project. */
  applySite(spec?: object, person?: Person): Promise<Site>;
  /** Creates the project with the objects that the operator would make. */
  makeSite(spec?: object, person?: Person): Promise<Site>;
  /** Creates an app with the objects that the operator would make. */
  makeApp(spec?: object, person?: Person): Promise<Site>;
  callWebhook(site: { id: number }, secret?: string, options?: CallOptions): Promise<Answer>;
  /** Returns the Builds in the order of their numbers. */
  buildsOf(site: Site): Promise<Build[]>;
}

export async function startDeploys(settings?: Parameters<typeof startTestApi>[0]): Promise<Deploys> {
  const api = await startTestApi(settings);
  const owner = await register(api);
  let sites = 0;
  const applySite = async (spec: object = {}, { email, token }: Person = owner): Promise<Site> => {
    const ref = `site-${++sites}`;
    await api.operator.apply(ref, { owner: email, type: 'frontend', ...spec });
    const { body } = await until(
      () => api.call('GET', `/projects?name=${ref}`, { token }),
      (answer) => answer.body.length === 1,
    );
    return body[0];
  };
  const withRepository = { source: { repoUrl: 'https://example.com/site.git' } };
  const makeSite = async (spec: object = withRepository, person: Person = owner): Promise<Site> => {
    const site = await applySite(spec, person);
    const metadata = { name: namespaceOf(site.ref), labels: { [LABEL_PROJECT]: site.ref } };
    await api.operator.client.create<object>('/api/v1/namespaces', { metadata });
    await api.operator.secret(site.ref, SECRETS.keys.name, { [SECRETS.keys.webhookSecret]: SECRET });
    return site;
  };
  const makeApp: Deploys['makeApp'] = (spec = withRepository, person = owner) =>
    makeSite({ ...spec, type: 'app' }, person);
  const callWebhook: Deploys['callWebhook'] = ({ id }, secret = SECRET, options = {}) =>
    api.call('POST', `/projects/${id}/deploy?token=${secret}`, options);
  const buildsOf = async ({ ref }: Site): Promise<Build[]> => {
    const builds: Build[] = [];
    await api.operator.client.eachOf<Build>({ path: buildsPath(ref) }, (build) => void builds.push(build));
    const numbered = (name: string) => Number(/\d+$/.exec(name)?.[0] ?? 0);
    return builds.sort((a, b) => numbered(a.metadata.name) - numbered(b.metadata.name));
  };
  return { api, owner, applySite, makeSite, makeApp, callWebhook, buildsOf };
}

export const buildsPath = (ref: string) => `/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds`;
