/** Apps of this machine: the Dockerfile of a repository becomes an image, and the image a container that serves. */
import path from 'node:path';
import { type ImageContext, runImageBuild } from '@slipway/kaniko-build-wrapper';
import type { Reach } from '@slipway/program';
import type { BuildName, KeptBuilds, Rollback } from '../../capabilities/index.js';
import { NotHealthy } from '../containers/app-loop.js';
import type { ContainerApps } from '../containers/container-apps.js';
import { type BuildAttempt, type BuildOutputs, OutputFailed } from './build-outputs.js';

export interface AppOutputsOptions {
  apps: ContainerApps;
  reach: Reach;
  certificates: string | undefined;
  siteUrl(ref: string): string;
  /** Called when the end of a rollback can be read. */
  onChange(ref: string): void;
}

export class AppOutputs implements BuildOutputs {
  /** Rollbacks that this process began, by ref. */
  readonly #rollbacks = new Map<string, { name: string; state: Rollback; cancel: AbortController }>();

  constructor(private readonly options: AppOutputsOptions) {}

  begin(): void {}

  async make(attempt: BuildAttempt): Promise<undefined> {
    const { order, signal } = attempt;
    const { ref, name, plan } = order;
    const { apps } = this.options;
    const request = await this.#request(attempt);
    const build = (context: ImageContext, onOutput: (bytes: Buffer) => void, ends: AbortSignal) =>
      apps.build(ref, { plan, limits: request.limits, secrets: order.env }, context, onOutput, ends);
    const { image } = await runImageBuild(request, build, attempt.events, signal);
    attempt.built({});
    attempt.line(`image sha256:${image}`);
    await apps.deploy(ref, name, image, signal).catch((error) => {
      throw error instanceof NotHealthy ? new OutputFailed('NotHealthy', error.message) : error;
    });
    return undefined;
  }

  async #request({ order, work, credentials, memoryBytes }: BuildAttempt) {
    const { ref, name, repoUrl, revision, branch, unless, submodules, settings, env, limits } = order;
    const { apps, reach, certificates, siteUrl } = this.options;
    return {
      ref,
      build: name,
      account: await apps.accountOf(ref),
      source: { repoUrl, revision, submodules, unless },
      credentials,
      settings: { ...settings, framework: undefined },
      deployment: { BRANCH: branch, SITE_URL: siteUrl(ref) },
      env,
      folders: { work, cache: path.join(work, 'cache') },
      limits: { ...limits, memoryBytes, processMemoryBytes: memoryBytes },
      reach,
      certificates,
    };
  }

  /** Begins the rollback at the first call. Later calls return how it is going, and forget its end. */
  async goLive({ ref, name }: BuildName): Promise<Rollback> {
    const { apps } = this.options;
    const known = this.#rollbacks.get(ref);
    if (known?.name === name) {
      if (known.state.kind !== 'pending') this.#rollbacks.delete(ref);
      return known.state;
    }
    known?.cancel.abort(new Error('superseded'));
    if (!(await apps.has(ref, name))) return { kind: 'absent' };
    const rollback = { name, state: PENDING as Rollback, cancel: new AbortController() };
    this.#rollbacks.set(ref, rollback);
    apps
      .rollOut(ref, name, rollback.cancel.signal)
      .then(
        () => ({ kind: 'live' as const }),
        (error: Error) => ({ kind: 'failed' as const, reason: 'NotHealthy', message: error.message }),
      )
      .then((state) => {
        rollback.state = state;
        this.options.onChange(ref);
      });
    return PENDING;
  }

  liveBuild(site: string): Promise<string | undefined> {
    return this.options.apps.live(site);
  }

  async keepOnly(ref: string, { deployments }: KeptBuilds, written: readonly string[]): Promise<void> {
    if (!written.includes(ref)) await this.options.apps.keepOnly(ref, deployments);
  }

  bytes(ref: string): Promise<number> {
    return this.options.apps.bytes(ref);
  }

  /** The layers of former versions are the cache. */
  async clearCache(): Promise<void> {}

  async remove(): Promise<void> {}

  async close(): Promise<void> {
    for (const { cancel } of this.#rollbacks.values()) cancel.abort(new Error('the platform stops'));
  }
}

const PENDING: Rollback = { kind: 'pending', message: 'waits until the container of that version is healthy' };
