/**
 * The apps of one machine: builds their images and runs their containers. In: the contexts of builds, and settings of
 * projects. Out: images, and containers that serve. They outlive a process that is killed: another one finds them.
 */
import { mkdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Plan } from '@slipway/crds';
import { APP_LIMITS, type EngineForm } from '@slipway/installation';
import { type FailedImage, type ImageContext, smallFile } from '@slipway/kaniko-build-wrapper';
import { addressesOf, unlessMissing } from '@slipway/program';
import type { AppLogs } from '@slipway/sites';
import type { Logger } from 'pino';
import type { AppSettings, Apps, AppView, EngineOutcome, EngineProject } from '../../capabilities/index.js';
import { AppLoop, type AppState } from './app-loop.js';
import { AppRecord, type AppVersions, versionIn } from './app-record.js';
import { addressesOf as linkAddressesOf, type OpenedNetworks } from './container-network.js';
import type { GroupLimits } from './delegated-group.js';
import { DnsForwarder } from './dns-forwarder.js';
import type { LinkedPlace } from './machine-routing.js';
import { ProjectContainers, SLOTS } from './project-containers.js';
import { bytesOfDisk } from './project-disk.js';
import { firstIdOf, ProjectNumbers, pairOf, volatileOf } from './project-numbers.js';
import { refuseDockerfile } from './refused-images.js';
import { RoutingWatch } from './routing-watch.js';
import { CommandFailed } from './system-command.js';

export interface ContainerAppsOptions {
  /** The folder of the apps' disks. */
  folder: string;
  form: EngineForm;
  /** Ranges that containers may not reach, as CIDRs. */
  closed: readonly string[];
  opened: OpenedNetworks;
  /** The IPv4 addresses of the data plane and of Postgres on this machine. Undefined: they have none. */
  linked: { services: LinkedPlace; database: LinkedPlace } | undefined;
  /** The output of the containers. */
  logs: AppLogs;
  log: Logger;
}

/** Versions that are kept for rollbacks, beside the live one. */
const VERSIONS_KEPT = 5;
/** The platform has 5 seconds for its end. */
const STOP_SECONDS = 2;
const RUNNING_LOOK_MS = 60_000;

interface App {
  loop: AppLoop;
  record: AppRecord;
  open(): Promise<ProjectContainers>;
}

export class ContainerApps implements Apps {
  readonly #apps = new Map<string, App>();
  readonly #numbers = new ProjectNumbers();
  /** The plan of each project, which decides the size of its disk. */
  readonly #plans = new Map<string, Plan>();
  #notify: (ref: string) => void = () => {};

  readonly #routing: RoutingWatch;
  readonly #resolver: DnsForwarder;

  constructor(private readonly options: ContainerAppsOptions) {
    const { opened, log } = options;
    this.#routing = new RoutingWatch(log);
    this.#resolver = new DnsForwarder({ reaches: addressesOf({ allowed: opened.networks }), log });
  }

  get linkPorts(): { services: number; database: number } | undefined {
    const { linked } = this.options;
    return linked && { services: linked.services.port, database: linked.database.port };
  }

  async addressesOf(ref: string): Promise<string[]> {
    const number = await this.#numbers.of(this.#folderOf(ref));
    return SLOTS.map((slot) => linkAddressesOf(pairOf(number, slot)).container);
  }

  async ensure(project: EngineProject, settings: AppSettings): Promise<{ outcome: EngineOutcome; view: AppView }> {
    const { ref, plan, suspended } = project;
    this.#plans.set(ref, plan);
    const { loop } = this.#app(ref);
    loop.configure({ ...settings, suspended, limits: APP_LIMITS[plan] });
    return { outcome: outcomeOf(loop.state), view: loop.view };
  }

  /** Returns the account of the project's builds, to which the clone must belong. */
  async accountOf(ref: string): Promise<{ uid: number; gid: number }> {
    const id = firstIdOf(await this.#numbers.of(this.#folderOf(ref)));
    return { uid: id, gid: id };
  }

  /** Builds an image. Resolves with its id, or with the exit code and the last words of a build that failed. */
  async build(
    ref: string,
    { plan, limits, secrets }: { plan: Plan; limits: GroupLimits; secrets: Readonly<Record<string, string>> },
    context: ImageContext,
    onOutput: (bytes: Buffer) => void,
    signal: AbortSignal,
  ): Promise<{ image: string } | FailedImage> {
    this.#plans.set(ref, plan);
    const containers = await this.#app(ref).open();
    const { space } = containers;
    const { folder, dockerfile, programs, socket, proxy } = context;
    const text = smallFile(path.dirname(dockerfile), path.basename(dockerfile)) ?? '';
    refuseDockerfile(text, await containers.podman.buildahVersion());
    const shown = {
      context: await space.show('context', folder),
      node: await space.show('node', programs.node),
      relay: await space.show('relay.mjs', programs.relay),
      socket: await space.show('egress.sock', socket),
    };
    try {
      const egress = [shown.node, shown.relay, shown.socket, String(proxy.port)];
      const file = path.join(shown.context, path.relative(folder, dockerfile));
      const order = { context: shown.context, dockerfile: file, egress, proxyUrl: proxy.url, secrets };
      return { image: await containers.build(order, limits, onOutput, signal) };
    } catch (error) {
      if (!(error instanceof CommandFailed) || error.exitCode === null) throw error;
      return { exitCode: error.exitCode, complaint: error.complaint };
    } finally {
      for (const place of Object.values(shown)) await space.hide(path.basename(place));
    }
  }

  /** Records the image of a build, and resolves once it serves. Rejects with NotHealthy, or the signal's reason. */
  async deploy(ref: string, build: string, image: string, signal: AbortSignal): Promise<void> {
    const { record } = this.#app(ref);
    await record.change((versions) => ({
      ...versions,
      kept: [...versions.kept.filter((each) => each.build !== build), { build, image }],
    }));
    await this.rollOut(ref, build, signal);
  }

  /** Resolves once the kept version serves. */
  async rollOut(ref: string, build: string, signal: AbortSignal): Promise<void> {
    await this.#app(ref).loop.rollOut(build, signal);
  }

  async has(ref: string, build: string): Promise<boolean> {
    return versionIn(await this.#app(ref).record.read(), build) !== undefined;
  }

  async live(ref: string): Promise<string | undefined> {
    return (await this.#app(ref).record.read()).live;
  }

  /** Deletes the images of the other versions: what is kept are the newest, the live and the wanted one. */
  async keepOnly(ref: string, most = VERSIONS_KEPT): Promise<void> {
    const { record, open } = this.#app(ref);
    const before = await record.read();
    const kept = keptOf(before, most);
    if (kept.length === before.kept.length) return;
    await record.change((versions) => ({ ...versions, kept: keptOf(versions, most) }));
    const { podman } = await open();
    await podman.keepImages(kept.map(({ image }) => image));
  }

  async bytes(ref: string): Promise<number> {
    return (await bytesOfDisk({ file: path.join(this.#folderOf(ref), 'disk') })) + (await this.options.logs.bytes(ref));
  }

  async stop(ref: string, seconds = 0): Promise<void> {
    const app = this.#app(ref);
    this.#apps.delete(ref);
    await app.loop.close();
    // A project that was never built has no disk.
    if ((await stat(this.#folderOf(ref)).catch(unlessMissing)) === undefined) return;
    const containers = await app.open();
    await Promise.all(SLOTS.map((slot) => containers.stop(slot, seconds)));
    await containers.close();
  }

  async remove(ref: string): Promise<void> {
    await this.stop(ref);
    await rm(this.#folderOf(ref), { recursive: true, force: true });
    await this.options.logs.remove(ref);
    await this.#numbers.release(this.#folderOf(ref));
    this.#plans.delete(ref);
  }

  onChange(listener: (ref: string) => void): void {
    this.#notify = listener;
  }

  /** Ends the loops and the containers, which start again with the platform. */
  async close(): Promise<void> {
    await this.#routing.close();
    await Promise.all([...this.#apps.keys()].map((ref) => this.stop(ref, STOP_SECONDS)));
    this.#resolver.closeAll();
  }

  #app(ref: string): App {
    const known = this.#apps.get(ref);
    if (known) return known;
    const made = this.#make(ref);
    this.#apps.set(ref, made);
    return made;
  }

  #make(ref: string): App {
    const record = new AppRecord(path.join(this.#folderOf(ref), 'versions.json'));
    let opened: Promise<ProjectContainers> | undefined;
    const open = () => {
      opened ??= this.#open(ref).catch((error) => {
        opened = undefined;
        throw error;
      });
      return opened;
    };
    const log = this.options.log.child({ ref });
    const loop = new AppLoop({ record, open, onChange: () => this.#notify(ref), log });
    return { record, open, loop };
  }

  async #open(ref: string): Promise<ProjectContainers> {
    const { form, closed, opened, logs, linked } = this.options;
    const resolver = this.#resolver;
    const folder = this.#folderOf(ref);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const number = await this.#numbers.of(folder);
    const volatile = volatileOf(number);
    this.#routing.start();
    const limits = () => APP_LIMITS[this.#plans.get(ref) ?? 'free'];
    const keepOutput = (bytes: Buffer) => logs.append(ref, bytes, limits().logBytes);
    const place = { ref, number, folder, volatile, form, closed, opened, resolver, keepOutput };
    const places = linked ? Object.values(linked) : [];
    return await ProjectContainers.open({ ...place, linked: places, diskBytes: limits().diskBytes });
  }

  #folderOf(ref: string): string {
    return path.join(this.options.folder, ref);
  }
}

function keptOf({ kept, live, wanted }: AppVersions, most: number): AppVersions['kept'] {
  const newest = new Set(kept.slice(-most - 1));
  return kept.filter((version) => newest.has(version) || version.build === live || version.build === wanted);
}

function outcomeOf(state: AppState): EngineOutcome {
  switch (state.kind) {
    case 'none':
    case 'running':
    case 'suspended':
      return { state: 'ready', value: undefined, lookAgainMs: RUNNING_LOOK_MS };
    case 'starting':
      return { state: 'progressing', message: state.message, lookAgainMs: 1_000 };
    case 'crashed':
      return { state: 'failed', reason: 'ContainerEnded', message: state.message, retry: false };
    case 'outdated':
      return { state: 'failed', reason: 'SettingsRefused', message: state.message, retry: false };
  }
}
