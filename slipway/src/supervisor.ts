/**
 * Starts the whole platform on this machine in order, keeps it up, and ends it in the reverse order. In: settings and
 * where to tell of progress. Out: a running platform. Called by `main.ts`.
 */
import { hostname } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeAtomically } from './atomic-file.js';
import { serverCertificate } from './certificate.js';
import { prepareCluster } from './cluster.js';
import { isSetupRequired, untilHealthy } from './health.js';
import { openHome, openSocketFolder } from './home.js';
import { kubeconfig } from './kubeconfig.js';
import { type HomeLock, lockHolder, takeLock } from './lock.js';
import { LogFile } from './log-file.js';
import { answers, expectFreePorts } from './ports.js';
import { endLeftoverServers, PostgresServers } from './postgres-servers.js';
import { StartProblem } from './problem.js';
import { Program } from './program.js';
import { type Address, kubernetesUrl, type Platform, type ProgramName, planOf, programKubeconfig } from './programs.js';
import type { Progress } from './progress.js';
import { KUBERNETES_USERS, openSecrets } from './secrets.js';
import { inUrl, reachableAt, type Settings } from './settings.js';

/** Ends in a row while starting, after which the start has failed. */
const MOST_FAILURES = 4;

export interface Started {
  /** The path of the administrator's kubeconfig. */
  kubeconfig: string;
  /** With it the first administrator registers; undefined: no code is needed. */
  setupCode?: string;
}

export class Supervisor {
  readonly #settings: Settings;
  readonly #progress: Progress;
  readonly #ending = new AbortController();
  readonly #programs: Program[] = [];
  #postgres: PostgresServers | undefined;
  #lock: HomeLock | undefined;
  #starting: Promise<unknown> = Promise.resolve();

  constructor(settings: Settings, progress: Progress) {
    this.#settings = settings;
    this.#progress = progress;
  }

  /** Resolves once `GET /health` answers 200. */
  async start(): Promise<Started> {
    const started = this.#startInOrder();
    this.#starting = started.catch(() => {});
    return await started;
  }

  async #startInOrder(): Promise<Started> {
    const platform = await this.#step('secrets and certificates', () => this.#open());
    await this.#startPostgres(platform);
    await this.#startPrograms(platform, ['apiserver'], 'Kubernetes API');
    await this.#step('custom resources', () => prepareCluster(this.#access(platform, 'supervisor')));
    await this.#startPrograms(platform, ['api', 'operator', 'dataplane'], 'API, operator and data plane');
    await this.#step('health', () => untilHealthy(this.#localUrl(), this.#ending.signal));
    await this.#dropMovedDatabase();
    const { kubeconfig } = platform.home;
    const needsCode = await isSetupRequired(this.#localUrl());
    return needsCode ? { kubeconfig, setupCode: platform.secrets.setupCode } : { kubeconfig };
  }

  #step<T>(title: string, work: () => Promise<T>): Promise<T> {
    this.#ending.signal.throwIfAborted();
    return this.#progress.step(title, work);
  }

  #localUrl = () => `http://${inUrl(reachableAt(this.#settings.host))}:${this.#settings.ports.people}`;

  async #open(): Promise<Platform> {
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
    await expectFreePorts(settings);
    await openSocketFolder(home.sockets);
    const secrets = await openSecrets(home);
    const certificate = await serverCertificate(home.tls, certificateNames(settings.kubernetesHost));
    const platform = { settings, home, secrets, certificate };
    await writeKubeconfigs(platform);
    return platform;
  }

  async #startPostgres(platform: Platform): Promise<void> {
    const servers = new PostgresServers(platform, this.#progress.say);
    this.#postgres = servers;
    const mustMove = await this.#step('Postgres', async () => {
      await servers.start();
      const must = await servers.mustMove();
      if (!must) await servers.prepare();
      return must;
    });
    if (!mustMove) return;
    await this.#step('platform database moved to a Postgres of its own', async () => {
      await servers.move();
      await servers.prepare();
    });
  }

  /** The platform works without it: the next start tries again. */
  async #dropMovedDatabase(): Promise<void> {
    await this.#postgres?.dropMoved().catch((error: Error) => {
      this.#progress.say(`! the platform database that was moved is not dropped yet: ${error.message}`);
    });
  }

  async #startPrograms(platform: Platform, names: ProgramName[], title: string): Promise<void> {
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

  /** Ends the programs that take requests first and Postgres last, so that each can finish its work. */
  async stop(): Promise<void> {
    this.#ending.abort(new StartProblem('stopped while starting'));
    await this.#starting;
    for (const program of this.#programs.toReversed()) await program.stop();
    await this.#postgres?.stop();
    this.#lock?.release();
  }

  /** Ends everything at once; nothing that was acknowledged is lost. */
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
