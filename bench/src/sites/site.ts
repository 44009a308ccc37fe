/** A site on a new platform, built from a real git server, and the same steps by hand. */
import { execFile } from 'node:child_process';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type BuildView, buildEnded, createSite, deliver, deploy } from '@slipway/e2e/deploys.js';
import { Management, type ProjectView } from '@slipway/e2e/management.js';
import { type RunningPlatform, startPlatform } from '@slipway/e2e/platform.js';
import { requestSite } from '@slipway/e2e/site-request.js';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { until } from '@slipway/testing';

const run = promisify(execFile);
const TOKEN = 'token-of-the-owner';
const NAME = 'site';
const BUILD = 'mkdir -p dist && cp version.txt dist/index.html && cp *.txt dist/';
const BUILD_MS = 120_000;
const LIVE_MS = 60_000;

export interface Pushed {
  /** Milliseconds from the webhook until the site serves the new page. */
  live: number;
  /** Milliseconds of the same commands without Slipway. */
  byHand: number;
}

export class Site {
  #version = 0;

  private constructor(
    private readonly workshop: Workshop,
    private readonly host: GitServer,
    readonly platform: RunningPlatform,
    private readonly person: Management,
    readonly project: ProjectView,
  ) {}

  /** `files`: names, which end in `.txt`, and contents. */
  static async create(files: Readonly<Record<string, string>>): Promise<Site> {
    const workshop = new Workshop();
    const host = await new GitServer(workshop, TOKEN).listen();
    workshop.repository(NAME, { 'package.json': { scripts: { build: BUILD } }, 'version.txt': '0', ...files });
    const platform = await startPlatform(undefined, {
      ...host.settings,
      // Everything comes from one address.
      SLIPWAY_RATE_LIMIT: '0',
    });
    const person = await Management.register(platform);
    const source = { repo_url: `${host.origin}/${NAME}.git`, github_token: TOKEN };
    const { id } = await createSite(person, 'benched', source);
    const { body: project } = await person.call<ProjectView>('GET', `/projects/${id}`);
    const site = new Site(workshop, host, platform, person, project);
    await site.#ended(await deploy(person, project));
    await site.#serves('0');
    return site;
  }

  async push(): Promise<Pushed> {
    const version = String(++this.#version);
    const tree = path.join(this.workshop.folder, 'trees', NAME);
    await writeFile(path.join(tree, 'version.txt'), version);
    const after = this.workshop.commit(NAME);
    const begin = performance.now();
    const message = { ref: 'refs/heads/main', after };
    const { message: queued } = await deliver(this.platform, this.project, this.project.webhook_secret, message);
    await this.#serves(version);
    const live = performance.now() - begin;
    await this.#ended(queued.split(' ')[0] as string);
    return { live, byHand: await this.#byHand(tree, version) };
  }

  async #byHand(tree: string, version: string): Promise<number> {
    const folder = path.join(tree, '..', 'by-hand');
    const published = path.join(tree, '..', 'published');
    const { origin } = this.host;
    const source = `${origin.replace('://', `://git:${TOKEN}@`)}/${NAME}.git`;
    const env = { PATH: process.env.PATH, GIT_SSL_CAINFO: this.workshop.certificate().file, HOME: folder };
    const begin = performance.now();
    await run('git', ['clone', '--quiet', '--depth', '1', source, folder], { env });
    await run('npm', ['install', '--silent', '--no-audit', '--no-fund'], { cwd: folder, env });
    await run('npm', ['run', '--silent', 'build'], { cwd: folder, env });
    await cp(path.join(folder, 'dist'), published, { recursive: true });
    const milliseconds = performance.now() - begin;
    const found = await readFile(path.join(published, 'index.html'), 'utf8');
    if (found !== version) throw new Error(`by hand, the page is ${found} and not ${version}`);
    for (const each of [folder, published]) await rm(each, { recursive: true });
    return milliseconds;
  }

  /** Returns milliseconds from the request until the site serves the former page. */
  async rollBack(): Promise<number> {
    const { body: builds } = await this.person.call<BuildView[]>('GET', `/projects/${this.project.id}/builds`);
    // The output of a rollback is that of an older build, which may not be stored any longer.
    const pushes = builds.filter(({ trigger, phase }) => trigger === 'webhook' && phase === 'Deployed');
    const former = (pushes.find(({ live }) => !live) ?? builds.at(-1)) as BuildView;
    const { body: now } = await requestSite(this.project.project_url);
    const begin = performance.now();
    const route = `/projects/${this.project.id}/builds/${former.id}/rollback`;
    const { status, body } = await this.person.call<{ message: string }>('POST', route);
    if (status !== 200) throw new Error(`the rollback got ${status}: ${JSON.stringify(body)}`);
    const ended = this.#ended(body.message.split(' ')[0] as string);
    const isBack = async () => (await requestSite(this.project.project_url)).body !== now;
    const back = until(isBack, 'the former page is served', LIVE_MS);
    await Promise.race([back, ended.then(() => back)]);
    const milliseconds = performance.now() - begin;
    await ended;
    return milliseconds;
  }

  async #serves(version: string): Promise<void> {
    const isServed = async () => (await requestSite(this.project.project_url)).body === version;
    await until(isServed, `version ${version} is served`, LIVE_MS);
  }

  async #ended(build: string): Promise<void> {
    const { phase, message } = await buildEnded(this.person, this.project, build, BUILD_MS);
    if (phase !== 'Deployed') throw new Error(`${build} is ${phase}: ${message}`);
  }

  async close(): Promise<void> {
    await this.platform.remove();
    this.host.close();
    this.workshop.close();
  }
}
