/**
 * Starts the whole platform on this machine in order, keeps it running, and stops it in the reverse order. In:
 * settings, and the receiver of progress messages. Out: a running platform. Called by `main.ts`.
 */
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CONTAINER_ENGINE_SETTING, containerEngineSetting, SHARED_SERVICES_SETTING } from '@slipway/installation';
import { SHARED_HOME, writeAtomically } from '@slipway/postgres';
import { writeAuthorities } from './authorities.js';
import { serverCertificate } from './certificate.js';
import { countProjectsWithFunctions, prepareCluster } from './cluster.js';
import { containerEngine } from './container-engine.js';
import { isSetupRequired, untilHealthy } from './health.js';
import { type Home, openHome, openSocketFolder } from './home.js';
import { kubeconfig } from './kubeconfig.js';
import { type HomeLock, lockHolder, takeLock } from './lock.js';
import { LogFile } from './log-file.js';
import {
  type ChosenServices,
  chooseServices,
  closedMessage,
  countProjectsWithFiles,
  servicesOf,
} from './opened-services.js';
import { answers, expectFreePorts } from './ports.js';
import { endLeftoverServers, PostgresServers } from './postgres-servers.js';
import { StartProblem } from './problem.js';
import { Program } from './program.js';
import { type Address, kubernetesUrl, type Platform, type ProgramName, planOf, programKubeconfig } from './programs.js';
import { type Progress, progressOf } from './progress.js';
import { expectPrograms } from './required-programs.js';
import { KUBERNETES_USERS, openSecrets } from './secrets.js';
import { inUrl, reachableAt, type Settings } from './settings.js';
import { orphansMessage } from './uninstall.js';

/**
 * Milliseconds from the beginning of a stop after which programs that still run are killed. Even under attack, a
 * platform stops within 10 s. A server that is killed in its checkpoint recovers at its next start, and loses nothing.
 */
const STOP_DEADLINES_MS = { dataplane: 4_500, operator: 5_000, api: 5_500, apiserver: 6_000, postgres: 8_500 };

/** Titles of the steps of a start, in order. */
const STEPS = [
  'secrets and certificates',
  'Postgres',
  'Kubernetes API',
  'custom resources',
  'API, operator and data plane',
  'health',
] as const;
/** A step between `Postgres` and `Kubernetes API`, once after an upgrade from an early release. */
const MOVE = 'platform database moved to a Postgres of its own';
type Step = (typeof STEPS)[number] | typeof MOVE;

/** Number of ends in a row after which the start has failed. */
const MOST_FAILURES = 4;

export interface Started {
  /** The path of the administrator's kubeconfig. */
  kubeconfig: string;
  /** The services of shared projects. */
  services: readonly string[];
  /** The code with which the first administrator registers. Undefined if no code is needed. */
  setupCode?: string;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #progress: Progress;
  readonly #ending = new AbortController();
  readonly #programs: Program[] = [];
  #postgres: PostgresServers | undefined;
  #lock: HomeLock | undefined;
  #sockets: string | undefined;
  #steps: readonly Step[] = STEPS;
  #services: ChosenServices = { setting: '', closed: [] };
  #starting: Promise<unknown> = Promise.resolve();

  constructor(settings: Settings, progress: Progress) {
    this.#settings = settings;
    this.#progress = progress;
  }

  /** Resolves once `GET /health` returns 200. */
  async start(): Promise<Started> {
    const started = this.#startInOrder();
    this.#starting = started.catch(() => {});
    return await started;
  }

  async #startInOrder(): Promise<Started> {
    const home = await this.#claim();
    const platform = await this.#step('secrets and certificates', () => this.#open(home));
    await this.#startPostgres(platform);
    await this.#startPrograms(platform, ['apiserver'], 'Kubernetes API');
    await this.#step('custom resources', () => prepareCluster(this.#access(platform, 'supervisor')));
    await this.#startPrograms(platform, ['api', 'operator', 'dataplane'], 'API, operator and data plane');
    await this.#step('health', () => untilHealthy(this.#localUrl(), this.#ending.signal));
    await this.#dropMovedDatabase();
    await this.#tellClosed(platform);
    await this.#tellOrphans();
    const started = { kubeconfig: platform.home.kubeconfig, services: servicesOf(this.#services.setting) };
    const needsCode = await isSetupRequired(this.#localUrl());
    return needsCode ? { ...started, setupCode: platform.secrets.setupCode } : started;
  }

  #step<T>(title: Step, work: (show: (progress: string) => void) => Promise<T>): Promise<T> {
    this.#ending.signal.throwIfAborted();
    return this.#progress.step(title, work, { number: this.#steps.indexOf(title) + 1, total: this.#steps.length });
  }

  #localUrl = () => `http://${inUrl(reachableAt(this.#settings.host))}:${this.#settings.ports.people}`;

  /**
   * Locks the home and checks the machine before the first step, so that a start that can't work ends with one line.
   */
  async #claim(): Promise<Home> {
    const settings = this.#settings;
    const home = await openHome(settings.home);
    this.#lock = await takeLock(home.folder);
    if (!this.#lock) {
      const holder = await lockHolder(home.folder);
      throw new StartProblem(
        `Slipway already runs over ${home.folder}${holder ? ` (process ${holder})` : ''}: ` +
          'end it with `npm stop`, or set SLIPWAY_HOME and SLIPWAY_PORT for a second one',
      );
    }
    await endLeftoverServers(home);
    await Promise.all([expectFreePorts(settings), expectPrograms()]);
    return home;
  }

  async #open(home: Home): Promise<Platform> {
    const settings = this.#settings;
    await openSocketFolder(home.sockets);
    this.#sockets = home.sockets.folder;
    const secrets = await openSecrets(home);
    this.#services = await chooseServices(home, settings.passedOn[SHARED_SERVICES_SETTING]);
    const engine = await containerEngine(home.apps);
    const passedOn = {
      ...settings.passedOn,
      [SHARED_SERVICES_SETTING]: this.#services.setting,
      [CONTAINER_ENGINE_SETTING]: containerEngineSetting(engine),
    };
    const certificate = await serverCertificate(home.tls, certificateNames(settings.kubernetesHost));
    const authorities = settings.authorities && (await writeAuthorities(home, settings.authorities));
    const platform = { settings: { ...settings, passedOn, authorities }, home, secrets, certificate };
    await writeKubeconfigs(platform);
    return platform;
  }

  async #startPostgres(platform: Platform): Promise<void> {
    const servers = new PostgresServers(platform, this.#progress.say, this.#ending.signal);
    this.#postgres = servers;
    const mustMove = await this.#step('Postgres', async () => {
      await servers.start();
      const must = await servers.mustMove();
      if (!must) await servers.prepare();
      return must;
    });
    if (!mustMove) return;
    this.#steps = STEPS.flatMap((step): Step[] => (step === 'Postgres' ? [step, MOVE] : [step]));
    await this.#step(MOVE, async (show) => {
      const begin = performance.now();
      await servers.move((done, total) => show(progressOf(done, total, performance.now() - begin)));
      await servers.prepare();
    });
  }

  /** Drops the moved database. The platform works if this fails, and the next start tries again. */
  async #dropMovedDatabase(): Promise<void> {
    await this.#postgres?.dropMoved().catch((error: Error) => {
      this.#progress.say(`! the platform database that was moved is not dropped yet: ${error.message}`);
    });
  }

  async #tellClosed(platform: Platform): Promise<void> {
    const { closed } = this.#services;
    if (closed.length === 0) return;
    const { SLIPWAY_STORAGE_S3, SLIPWAY_STORAGE_DIR } = platform.settings.passedOn;
    // Files in S3 are not counted, because there may be millions.
    const storage = SLIPWAY_STORAGE_S3
      ? undefined
      : countProjectsWithFiles(SLIPWAY_STORAGE_DIR ?? platform.home.storage);
    const functions = countProjectsWithFunctions(this.#access(platform, 'supervisor'));
    this.#progress.say(closedMessage(closed, { storage: await storage, functions: await functions }));
  }

  /**
   * Reports data whose home was deleted. Only root has data outside of its homes. An error here never fails a start.
   */
  async #tellOrphans(): Promise<void> {
    if (process.getuid?.() !== 0) return;
    const message = await orphansMessage(SHARED_HOME).catch((error: Error) => `! ${SHARED_HOME}: ${error.message}`);
    if (message) this.#progress.say(message);
  }

  async #startPrograms(platform: Platform, names: ProgramName[], title: Step): Promise<void> {
    await this.#step(title, async () => {
      const started = names.map((name) => this.#startProgram(platform, name));
      await Promise.all(started.map(({ program, address }) => this.#untilServing(program, address)));
    });
  }

  #startProgram(platform: Platform, name: ProgramName): { program: Program; address: Address } {
    const { address, ...plan } = planOf(name, platform);
    const file = path.join(platform.home.logs, `${name}.log`);
    const onEnd = (how: string, delay: number) =>
      this.#progress.say(`! ${name} ended (${how}); starting it again in ${seconds(delay)} (${file})`);
    const program = new Program({ name, ...plan, log: new LogFile(file), onEnd });
    this.#programs.push(program);
    program.start();
    return { program, address };
  }

  async #untilServing(program: Program, address: Address): Promise<void> {
    while (!(await answers(address))) {
      if (program.failures >= MOST_FAILURES) {
        throw new StartProblem(`${program.name} does not start: ${program.log.lastWords() || 'it says nothing'}`);
      }
      await sleep(20, undefined, { signal: this.#ending.signal });
    }
  }

  #access({ settings, secrets, certificate }: Platform, user: 'supervisor') {
    return { url: kubernetesUrl(settings), authority: certificate.authority, token: secrets.tokens[user] };
  }

  /** Stops the programs that accept requests first and Postgres last, so that each can finish its work. */
  async stop(): Promise<void> {
    this.#ending.abort(new StartProblem('stopped while starting'));
    await this.#starting;
    const begin = performance.now();
    const left = (name: keyof typeof STOP_DEADLINES_MS) =>
      Math.max(0, STOP_DEADLINES_MS[name] - (performance.now() - begin));
    // Not awaited, because the stop has deadlines.
    void this.#postgres?.checkpoint();
    for (const program of this.#programs.toReversed()) await program.stop(left(program.name));
    await this.#postgres?.stop(left('postgres'));
    if (this.#sockets) await rm(this.#sockets, { recursive: true, force: true });
    this.#lock?.release();
  }

  /** Kills everything at once. Acknowledged writes are not lost. */
  kill(): void {
    for (const program of this.#programs) program.kill();
    this.#postgres?.kill();
  }
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`;

function certificateNames(host: string): string[] {
  return [...new Set(['localhost', '127.0.0.1', '::1', hostname(), reachableAt(host)])];
}

async function writeKubeconfigs(platform: Platform): Promise<void> {
  const { home, secrets, certificate, settings } = platform;
  for (const user of KUBERNETES_USERS) {
    const file = user === 'admin' ? home.kubeconfig : programKubeconfig(home, user);
    await writeAtomically(file, kubeconfig(kubernetesUrl(settings), certificate.authority, user, secrets.tokens[user]));
  }
}
