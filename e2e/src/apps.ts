/**
 * Apps for tests: repositories with a Dockerfile, deploys of them, and what they leave on the machine. No image can be
 * pulled here, so the repositories contain this machine's Node.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { copyPrograms } from '@slipway/operator/machine-programs.js';
import * as assert from 'uvu/assert';
import { type BuildView, buildEnded, deploy } from './deploys.js';
import { Management, type ProjectView } from './management.js';
import { type PlatformPlace, type RunningPlatform, startPlatform } from './platform.js';
import { requestSite } from './site-request.js';

const BUILD_MS = 120_000;
export const NUMBERS = '/var/lib/slipway-apps';

/** `step` is a line of the Dockerfile. */
export const dockerfileOf = (step = '') => `FROM scratch
COPY base /
${step}
COPY app.js /
CMD ["${process.execPath}", "/app.js"]
`;

/** Returns an app that responds with its version, its variables and the headers of the request, as JSON. */
export const echoOf = (version: number, listens = 'server.listen(process.env.PORT);') => `
const { createServer } = require('node:http');
process.on('SIGUSR2', () => process.exit(3));
const server = createServer((request, response) => {
  if (request.url === '/end') process.kill(process.pid, 'SIGUSR2');
  if (request.url.startsWith('/say/')) console.log(request.url);
  const { PORT, WORD, LINES } = process.env;
  const { method, url, headers } = request;
  response.end(JSON.stringify({ version: ${version}, PORT, WORD, LINES, method, url, headers }));
});
process.on('SIGTERM', () => server.close(() => process.exit(0)));
console.log('version ${version}');
${listens}
`;

export interface AppHost {
  person: Management;
  workshop: Workshop;
  host: GitServer;
  /** Undefined: the repositories are public. */
  token: string | undefined;
}

/** A platform, a Git server, and an account that deploys apps from it. */
export interface AppScene {
  own: AppHost;
  /** The settings with which the platform was started, for another start. */
  settings: Record<string, string>;
  platform: RunningPlatform;
  /** The reason why the platform runs no apps on this machine. */
  lacking: string | undefined;
  /** Ends the Git server, and the platform of the scene. */
  close(): Promise<void>;
}

/** Opens a scene, whose account is the first one. Prints why the tests are skipped, if the platform runs no apps. */
export async function openApps(token?: string, account: [email?: string, password?: string] = []): Promise<AppScene> {
  const workshop = new Workshop();
  const host = await new GitServer(workshop, token).listen();
  const platform = await startPlatform(undefined, host.settings);
  const person = await Management.register(platform, ...account);
  const lacking = await whyNoApps(person);
  if (lacking) console.log(`# skipped: ${lacking}`);
  const scene: AppScene = {
    own: { person, workshop, host, token },
    settings: host.settings,
    platform,
    lacking,
    close: async () => {
      await scene.platform.remove();
      host.close();
      workshop.close();
    },
  };
  return scene;
}

/** Returns the reason why the platform runs no apps on this machine. Undefined: it does. */
export async function whyNoApps(person: Management): Promise<string | undefined> {
  const { body } = await person.call<{ id: string; reason: string | null }[]>('GET', '/backend-types');
  return missingWall() ?? body.find(({ id }) => id === 'app')?.reason ?? undefined;
}

/** Makes a repository with a Dockerfile and the app, and a project of it. `programs` are in its image too. */
export async function createApp(
  { person, workshop, host, token }: AppHost,
  name: string,
  app = echoOf(1),
  programs: readonly string[] = [],
): Promise<ProjectView> {
  const tree = path.join(workshop.folder, 'trees', name);
  workshop.repository(name, { Dockerfile: dockerfileOf(), 'app.js': app });
  workshop.git(tree, 'config', 'core.compression', '0');
  await copyPrograms(path.join(tree, 'base'), [process.execPath, '/bin/sh', '/bin/sleep', ...programs]);
  workshop.commit(name);
  const project = await person.untilHealthy((await person.createProject(name, undefined, 'app')).id);
  const source = { repo_url: `${host.origin}/${name}.git`, github_token: token };
  assert.is((await person.call('PATCH', `/projects/${project.id}`, source)).status, 200);
  return project;
}

/** Pushes another version. */
export function push({ workshop }: AppHost, name: string, files: Readonly<Record<string, string>>): void {
  for (const [file, text] of Object.entries(files)) {
    writeFileSync(path.join(workshop.folder, 'trees', name, file), text);
  }
  workshop.commit(name);
}

export const beginDeploy = ({ person }: AppHost, project: ProjectView): Promise<string> =>
  deploy(person, project, 'compute/deploy');

/** Deploys the newest commit, and returns the build after its end, with its log if it failed. */
export async function deployed(host: AppHost, project: ProjectView): Promise<BuildView & { log: string }> {
  const build = await buildEnded(host.person, project, await beginDeploy(host, project), BUILD_MS);
  const { body } = await host.person.call('GET', `/projects/${project.id}/build-logs`);
  return { ...build, log: JSON.stringify(body) };
}

export interface AppStatus {
  status: string;
  message: string;
  services: { app?: { up: boolean; restarts?: number; last_exit_code?: number; started_at?: string } };
}

export const statusOf = async (person: Management, { id }: ProjectView): Promise<AppStatus> =>
  (await person.call<AppStatus>('GET', `/projects/${id}/status`)).body;

export interface AppPage {
  version: number;
  PORT?: string;
  WORD?: string;
  LINES?: string;
  headers: Record<string, string>;
}

/** Undefined: the app does not serve. */
export async function page({ project_url }: ProjectView): Promise<AppPage | undefined> {
  const { status, body } = await requestSite(project_url);
  return status === 200 ? (JSON.parse(body) as AppPage) : undefined;
}

/** Returns the processes of the project's engine, whose arguments name its containers. */
export function enginesOf({ ref }: ProjectView): string[] {
  const { stdout } = spawnSync('ps', ['-e', '-o', 'pid=,args='], { encoding: 'utf8' });
  return stdout.split('\n').filter((line) => line.includes(`slipway-${ref}-`));
}

/** Returns what a deleted app has left: processes, mounts, networks, files and its number. */
export function leftoversOf({ home }: PlatformPlace, project: ProjectView): string[] {
  const { ref } = project;
  const folder = path.join(home, 'apps', ref);
  const log = path.join(home, 'builds', 'app-logs', ref);
  const numbers = existsSync(NUMBERS) ? readdirSync(NUMBERS) : [];
  const network = existsSync('/run/netns') ? readdirSync('/run/netns') : [];
  const loops = readdirSync('/sys/block').map((name) => path.join('/sys/block', name, 'loop', 'backing_file'));
  return [
    ...enginesOf(project),
    ...numbers.filter((name) => readlinkSync(path.join(NUMBERS, name)) === folder),
    ...network.filter((name) => name.startsWith(`slipway-${ref}-`)),
    ...loops.filter((file) => existsSync(file) && readFileSync(file, 'utf8').startsWith(`${folder}/`)),
    ...(readFileSync('/proc/mounts', 'utf8').match(new RegExp(`^.*slipway-${ref}-.*$`, 'gm')) ?? []),
    ...[folder, log].filter((each) => existsSync(each)),
  ];
}
