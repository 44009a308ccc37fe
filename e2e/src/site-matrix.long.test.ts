/**
 * Tests each kind of site with each access to its repository and each way to start a build, on one machine: real git
 * servers, and packages from the registry that the machine's npm is configured for.
 */
import { API_VERSION, type Build } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, LOOPBACK, registryNetworks, SshServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test as always, suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuildView, buildEnded, createSite, deliver, deploy } from './deploys.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { requestSite } from './site-request.js';

const TOKEN = 'token-of-the-owner';
const PATIENCE_MS = 300_000;
const missing = missingWall();
const test = suite('kinds of sites');

let platform: RunningPlatform;
let person: Management;
let workshop: Workshop;
let host: GitServer;
let ssh: SshServer;
const deployKeys: string[] = [];

test.before(async () => {
  workshop = new Workshop();
  host = await new GitServer(workshop, TOKEN).listen();
  ssh = await new SshServer(workshop).listen();
  platform = await startPlatform(undefined, {
    ...host.settings,
    SLIPWAY_ALLOWED_NETWORKS: [...LOOPBACK, ...(await registryNetworks())].join(','),
  });
  await Management.register(platform);
  person = await Management.register(platform);
});
test.after(async () => {
  await platform?.remove();
  host?.close();
  ssh?.close();
  workshop?.close();
});

interface Kind {
  settings?: object;
  /** `text` is on the page. */
  files(text: string): Record<string, string | object>;
}

const KINDS: Record<string, Kind> = {
  static: { files: (text) => ({ 'index.html': `<p>${text}</p>` }) },
  vite: {
    files: (text) => ({
      'package.json': {
        name: 'app',
        private: true,
        type: 'module',
        scripts: { build: 'vite build' },
        devDependencies: { vite: '6.0.0' },
      },
      'index.html': `<!doctype html><p>${text}</p><script type="module" src="/main.js"></script>`,
      'main.js': 'document.title = import.meta.env.MODE;',
    }),
  },
  astro: {
    files: (text) => ({
      'package.json': {
        name: 'pages',
        private: true,
        type: 'module',
        scripts: { build: 'astro build' },
        dependencies: { astro: '5.0.0' },
      },
      'src/pages/index.astro': `<html><body><p>${text}</p></body></html>`,
    }),
  },
  pnpm: {
    settings: { root_dir: 'apps/web' },
    files: (text) => ({
      'package.json': { name: 'workspace', private: true, packageManager: 'pnpm@10.1.0' },
      'pnpm-workspace.yaml': 'packages:\n  - apps/*\n  - libs/*\n',
      'libs/greeting/package.json': { name: 'greeting', version: '1.0.0', type: 'module', main: 'index.js' },
      'libs/greeting/index.js': `export const greeting = '<p>${text}</p>';`,
      'apps/web/package.json': {
        name: 'web',
        private: true,
        type: 'module',
        scripts: { build: 'node build.js' },
        dependencies: { greeting: 'workspace:*' },
      },
      'apps/web/build.js': `import { mkdirSync, writeFileSync } from 'node:fs';
        import { greeting } from 'greeting';
        mkdirSync('dist', { recursive: true });
        writeFileSync('dist/index.html', greeting);`,
    }),
  },
};

/** How a project gets access to its repository. Returns the repository's URL. */
const ACCESSES: Record<string, { url(name: string): string; grant(project: ProjectView): Promise<void> }> = {
  token: {
    url: (name) => `${host.origin}/${name}.git`,
    grant: async ({ id }) => {
      assert.is((await person.call('PATCH', `/projects/${id}`, { github_token: TOKEN })).status, 200);
    },
  },
  'deploy key': {
    url: (name) => ssh.source(name).repoUrl,
    grant: async ({ id }) => {
      const { body } = await person.call<{ public_key: string }>('POST', `/projects/${id}/deploy-key`);
      deployKeys.push(body.public_key);
      ssh.authorize(...deployKeys);
    },
  },
};

/** Ways to start a build. Each returns the name of the Build. */
const STARTS: Record<string, (project: ProjectView, commit: string) => Promise<string>> = {
  REST: (project) => deploy(person, project),
  webhook: async (project, after) => {
    const push = { ref: 'refs/heads/main', after };
    return (await deliver(platform, project, project.webhook_secret as string, push)).message.split(' ')[0] as string;
  },
  kubectl: async ({ ref }) => {
    const name = 'by-hand';
    await withClient(platform.kubeconfig, (client) =>
      client.create<Build>(`/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds`, {
        apiVersion: API_VERSION,
        kind: 'Build',
        metadata: { name },
        spec: { project: ref },
      }),
    );
    return name;
  },
};

const ended = (project: ProjectView, name: string): Promise<BuildView> =>
  buildEnded(person, project, name, PATIENCE_MS);

for (const [kind, { settings, files }] of Object.entries(KINDS)) {
  for (const [access, { url, grant }] of Object.entries(ACCESSES)) {
    test(`a ${kind} site with a ${access} is deployed by REST, by a webhook and by kubectl`, async () => {
      const name = `${kind}-${access.replaceAll(/\W/g, '')}`;
      workshop.repository(name, files('never served'));
      const { id } = await createSite(person, name);
      assert.is((await person.call('PATCH', `/projects/${id}`, { repo_url: url(name), ...settings })).status, 200);
      const project = (await person.call<ProjectView>('GET', `/projects/${id}`)).body;
      const denied = await ended(project, await deploy(person, project));
      assert.equal([denied.phase, denied.steps.at(-1)?.exit_code], ['Failed', 128], denied.message);
      await grant(project);
      for (const [start, begin] of Object.entries(STARTS)) {
        const text = `built by ${start}`;
        const commit = workshop.repository(name, files(text));
        const build = await ended(project, await begin(project, commit));
        assert.equal([build.phase, build.commit], ['Deployed', commit], `${start}: ${build.message}`);
        await until(async () => (await requestSite(project.project_url)).body.includes(`<p>${text}`), text);
      }
    });
  }
}

if (missing) {
  console.log(`# skipped: this machine is missing ${missing}`);
  always('the missing requirement is named when a machine can’t isolate builds', () => assert.ok(missing));
  always.run();
} else test.run();
