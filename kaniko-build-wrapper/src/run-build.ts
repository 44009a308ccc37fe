/**
 * Runs one build: clones, installs and builds, each step in sealed processes. In: a request of the platform, with
 * values of the tenant. Out: the folder of the output, the commit, and the detected values.
 */
import path from 'node:path';
import { BuildSession } from './build-session.js';
import { clone, commitOf } from './clone.js';
import { type Commands, commandsOf, outputAfter } from './frameworks.js';
import { innerFolder } from './inner-folder.js';
import { outputFolder } from './output-folder.js';
import { modulesKey } from './project-cache.js';
import type { BuildEvents, BuildRequest, BuildResult, Step } from './request.js';
import { tenantEnv, writeHome } from './tenant-home.js';
import { machineNpm } from './toolchain/machine-npm.js';
import { type ManagerName, type Plan, planOf } from './toolchain/plan.js';
import { provideToolchain, type Toolchain } from './toolchain/toolchain.js';
import { refuseUnneeded } from './unneeded.js';
import { missingWall } from './walls.js';

/**
 * Resolves with the folder of the output. Rejects with BuildFailed, whose message is for the tenant, with Unneeded, or
 * with the signal's reason. Every process of the build has ended before it settles.
 */
export async function runBuild(request: BuildRequest, events: BuildEvents, signal: AbortSignal): Promise<BuildResult> {
  const missing = missingWall();
  if (missing) throw new Error(`this machine cannot isolate builds: it is missing ${missing}`);
  const session = new BuildSession(request, events, signal);
  try {
    await session.open();
    return await stepsOf(session, events);
  } catch (error) {
    throw session.explained(error);
  } finally {
    await session.close();
  }
}

async function stepsOf(session: BuildSession, events: BuildEvents): Promise<BuildResult> {
  const { request, folders, account } = session;
  session.begin('Cloning');
  await refuseUnneeded(session);
  await clone({ request, folders, account, run: (command, onOutput) => session.run(command, onOutput) });
  const commit = commitOf(folders.source);
  events.commit(commit);
  const root = innerFolder(folders.source, request.settings.rootDir ?? '.', 'root_dir');
  const plan = planOf(foldersFrom(root, folders.source));
  const { outputDir: set, warnings, ...commands } = commandsOf(root, request.settings, plan.manager);
  for (const warning of warnings) session.log.line(warning);
  const toolchain = hasSteps(commands) ? await new Builder(session, root, commit).build(plan, commands) : undefined;
  const outputDir = set ?? outputAfter(root);
  const output = outputFolder(folders.source, root, outputDir);
  const { manager: packageManager, nodeVersion } = toolchain ?? {};
  return { output, commit, detected: { ...commands, outputDir, packageManager, nodeVersion } };
}

type Scripts = Pick<Commands, 'framework' | 'installCommand' | 'buildCommand'>;

const hasSteps = ({ installCommand, buildCommand }: Scripts) => `${installCommand}${buildCommand}`.trim() !== '';

/** Returns the folder and its parents, up to the repository's folder. */
function foldersFrom(root: string, source: string): string[] {
  return root === source ? [root] : [root, ...foldersFrom(path.dirname(root), source)];
}

/** Installs and builds in a folder of the sources. */
class Builder {
  constructor(
    private readonly session: BuildSession,
    private readonly root: string,
    private readonly commit: string,
  ) {}

  async build(plan: Plan, { installCommand, buildCommand }: Scripts): Promise<Toolchain> {
    const { cache, folders } = this.session;
    const toolchain = await this.#toolchain(plan);
    const place = path.relative(folders.source, this.root);
    cache.used(cache.packages(plan.manager.name));
    const key = modulesKey(plan.lockfile ?? '', toolchain.nodeVersion, toolchain.manager, place);
    if (plan.lockfile !== undefined && installCommand !== '' && cache.restoreModules(key, this.root))
      this.session.log.line('Packages of an earlier build with the same lockfile were restored.');
    await this.#script('Installing', installCommand, toolchain, plan.manager.name);
    try {
      await this.#script('Building', buildCommand, toolchain, plan.manager.name);
    } finally {
      if (plan.lockfile !== undefined) await cache.keepModules(key, this.root);
    }
    return toolchain;
  }

  async #toolchain(plan: Plan): Promise<Toolchain> {
    const { account, cache, folders, request } = this.session;
    const npm = await machineNpm();
    writeHome(folders.home, npm, account);
    return provideToolchain(plan, {
      bin: folders.bin,
      kept: cache.toolchains,
      account,
      npm,
      env: tenantEnv({ ...request, env: {} }, this.commit, folders, cache, 'npm'),
      readable: this.#certificates(),
      writable: [folders.home, cache.packages('npm')],
      run: (command) => {
        this.session.begin('Installing');
        return this.session.run(command);
      },
    });
  }

  async #script(step: Step, script: string, toolchain: Toolchain, manager: ManagerName): Promise<void> {
    if (script.trim() === '') return;
    const { cache, folders, log, request } = this.session;
    this.session.begin(step);
    log.line(`$ ${script}`);
    await this.session.run({
      command: ['/bin/sh', '-c', 'cd "$1" && shift && eval "$1"', 'sh', this.root, script],
      env: tenantEnv(request, this.commit, folders, cache, manager),
      readable: [...toolchain.readable, ...this.#certificates()],
      writable: [folders.source, folders.home, ...cache.managers],
      shown: JSON.stringify(script.slice(0, 200)),
    });
  }

  #certificates(): string[] {
    const { certificates } = this.session.request;
    return certificates ? [certificates] : [];
  }
}
