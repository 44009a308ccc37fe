/** Probes whether a project's services respond at the data plane, as a client would see it. */
import { PROJECT_SERVICES, type ProjectService, type ProjectType } from '@slipway/crds';
import { whyUnavailable } from '@slipway/installation';
import { parseJson, readBounded } from '@slipway/program';
import { Agent } from 'undici';
import type { EngineOutcome, EngineProject, Services, Usage } from '../capabilities/index.js';
import type { PauseWatch } from './pause-watch.js';
import { projectPause } from './project-pause.js';
import { lookQuickly } from './quick-looks.js';
import { type Answer, isTokenAccepted, postgrestError } from './token-accepted.js';

const TIMEOUT_MS = 3_000;
const CONNECTIONS = 16;
const LOOK_AGAIN_MS = 2_000;

interface Probe {
  method: 'GET' | 'HEAD';
  path: string;
  answers(answer: Answer): boolean;
}

const isOk = ({ status }: Answer) => status === 200;
/** True if the service itself answered: also if it rejected the token, or its owner closed the root path. */
const isThere = (answer: Answer) => isTokenAccepted(answer) || (answer.status < 500 && answer.status !== 404);

const PROBES: Readonly<Record<ProjectService, Probe>> = {
  auth: { method: 'GET', path: '/auth/v1/health', answers: isOk },
  rest: { method: 'HEAD', path: '/rest/v1/', answers: isThere },
  realtime: { method: 'GET', path: '/realtime/v1/api/health', answers: isOk },
  storage: { method: 'GET', path: '/storage/v1/status', answers: isOk },
  functions: { method: 'GET', path: '/functions/v1/_internal/health', answers: isOk },
};

/**
 * Probes of the programs that verify tokens: of the gateway, and behind it of REST and realtime, which may be separate
 * programs.
 */
const VERIFIERS: readonly Probe[] = [
  { method: 'HEAD', path: '/rest/v1/', answers: isTokenAccepted },
  // An accepted key results in 405, as this route only has POST.
  { method: 'GET', path: '/realtime/v1/api/broadcast', answers: isTokenAccepted },
];
const ACCEPTANCE_LOOK_AGAIN_MS = 500;

/** Services that every backend needs. Any other service that the data plane does not run is shown as unavailable. */
const NEEDED: readonly ProjectService[] = ['auth', 'rest', 'realtime'];
const NOT_RUN = 'HTTP 404';
const PAUSED = 'paused ';
/** Reason of ServicesReady and Ready while the data plane has paused the project. */
const REASON_PAUSED = 'Paused';

const STATUS_BOUND = { bytes: 10_000, depth: 5, values: 50 };

export class ServiceProbe {
  readonly #dataplaneUrl: string;
  readonly #projectUrl: (ref: string) => string;
  readonly #agent = new Agent({ connections: CONNECTIONS, allowH2: false, headersTimeout: TIMEOUT_MS });

  constructor(
    dataplaneUrl: string,
    projectUrl: (ref: string) => string,
    private readonly pauses?: Pick<PauseWatch, 'find'>,
  ) {
    this.#dataplaneUrl = dataplaneUrl.replace(/\/$/, '');
    this.#projectUrl = projectUrl;
  }

  /**
   * Probes the services. `available`: the services that the project has by its type and plan. `direct`: the health URLs
   * of services that have pods of their own.
   */
  async ask(
    { ref, type }: Pick<EngineProject, 'ref' | 'type'>,
    anonKey: string,
    available: readonly ProjectService[],
    direct: Partial<Record<ProjectService, string>> = {},
  ): Promise<EngineOutcome<Services>> {
    const known = this.pauses?.find(ref);
    if (known) return pausedOutcome(PAUSED + known);
    const results = await Promise.all(
      available.map(async (name) => {
        const state = await this.#untilAnswered(name, () => this.#lookAt(ref, anonKey, name, direct[name]));
        return { name, state };
      }),
    );
    const pause = results.find(({ state }) => state.startsWith(PAUSED));
    if (pause) return pausedOutcome(pause.state);
    const silent = results.filter(({ name, state }) => state !== 'running' && !isAbsent(name, state));
    if (silent.length > 0) {
      const message = `waiting for ${silent.map(({ name, state }) => `${name} (${state})`).join(' and ')} to answer`;
      return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    }
    const url = this.#projectUrl(ref);
    const running = new Set(results.filter(({ state }) => state === 'running').map(({ name }) => name));
    const services = PROJECT_SERVICES.map((name) => [
      name,
      running.has(name)
        ? { up: true, status: 'running', endpoint: `${url}/${name}/v1` }
        : { up: false, status: 'unavailable', reason: reasonOf(name, type, available) },
    ]);
    return { state: 'ready', value: Object.fromEntries(services) };
  }

  /** Whether all `origins`, and the programs behind them, accept `key`: each learns a new JWT secret by itself. */
  async accepts(ref: string, key: string, origins: readonly string[] = [this.#dataplaneUrl]): Promise<EngineOutcome> {
    const looks = origins.flatMap((origin) => VERIFIERS.map((probe) => ({ origin, probe })));
    const results = await Promise.all(
      looks.map(async ({ origin, probe }) => ({
        at: origin + probe.path,
        state: await this.#look(ref, key, probe, origin),
      })),
    );
    const refusing = results.find(({ state }) => state !== 'running');
    if (!refusing) return { state: 'ready', value: undefined };
    const message = `waiting for ${refusing.at} to accept tokens of the next JWT secret (${refusing.state})`;
    return { state: 'progressing', message, lookAgainMs: ACCEPTANCE_LOOK_AGAIN_MS };
  }

  /**
   * Returns the size of the project's files, as its storage service counts them. Undefined if it has no storage
   * service.
   */
  async storageUsage(ref: string, serviceRoleKey: string): Promise<Usage | undefined> {
    try {
      const { statusCode, body } = await this.#agent.request({
        origin: this.#dataplaneUrl,
        path: `/p/${ref}/storage/v1/status`,
        method: 'GET',
        headers: { apikey: serviceRoleKey, authorization: `Bearer ${serviceRoleKey}` },
        bodyTimeout: TIMEOUT_MS,
      });
      if (statusCode !== 200) {
        await body.dump();
        return undefined;
      }
      const { usage } = parseJson(await readBounded(body, STATUS_BOUND.bytes), STATUS_BOUND) as {
        usage?: Partial<Usage>;
      };
      const { used, limit } = usage ?? {};
      return Number.isSafeInteger(used) && Number.isSafeInteger(limit) ? (usage as Usage) : undefined;
    } catch {
      return undefined;
    }
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  #untilAnswered(name: ProjectService, look: () => Promise<string>): Promise<string> {
    return lookQuickly(look, (state) => state === 'running' || state.startsWith(PAUSED) || isAbsent(name, state));
  }

  #lookAt(ref: string, anonKey: string, name: ProjectService, health: string | undefined): Promise<string> {
    if (health === undefined) return this.#look(ref, anonKey, PROBES[name]);
    const { origin, pathname } = new URL(health);
    // A kept connection may have been made before the Service routed to the pods. It would lead elsewhere as long as it
    // is kept.
    return this.#request(origin, { method: 'GET', path: pathname, answers: isOk }, { reset: true });
  }

  #look(ref: string, anonKey: string, probe: Probe, origin = this.#dataplaneUrl): Promise<string> {
    const headers = { apikey: anonKey, authorization: `Bearer ${anonKey}` };
    return this.#request(origin, { ...probe, path: `/p/${ref}${probe.path}` }, { headers });
  }

  /** Returns `running`, `paused` with the end and the reason, or another response in a few words. */
  async #request(
    origin: string,
    { method, path, answers }: Probe,
    more: { headers?: Record<string, string>; reset?: boolean },
  ): Promise<string> {
    try {
      const { statusCode, headers, body } = await this.#agent.request({
        origin,
        path,
        method,
        ...more,
        bodyTimeout: TIMEOUT_MS,
      });
      await body.dump();
      const pause = projectPause(headers['proxy-status']);
      if (pause) return PAUSED + pause;
      const answer = { status: statusCode, error: postgrestError(headers['proxy-status']) };
      return answers(answer) ? 'running' : `HTTP ${statusCode}`;
    } catch (error) {
      return (error as { code?: string }).code ?? 'no answer';
    }
  }
}

const pausedOutcome = (state: string): EngineOutcome<never> => ({
  state: 'progressing',
  reason: REASON_PAUSED,
  message:
    `${state}: twice within an hour the data plane stopped answering all projects during this operation, ` +
    'and was restarted',
  lookAgainMs: LOOK_AGAIN_MS,
});

function reasonOf(name: ProjectService, type: ProjectType, available: readonly ProjectService[]): string {
  if (available.includes(name)) return `This installation does not run the ${name} service.`;
  const { message, hint } = whyUnavailable(name, type);
  return [`${message}.`, hint].filter(Boolean).join(' ');
}

const isAbsent = (name: ProjectService, state: string) => state === NOT_RUN && !NEEDED.includes(name);
