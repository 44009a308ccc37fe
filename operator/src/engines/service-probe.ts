/** Asks the data plane whether a project's services answer, as its clients would. */
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { Agent } from 'undici';
import type { EngineOutcome, Services } from './engine.js';
import { type Answer, isTokenAccepted, postgrestError } from './token-accepted.js';

const TIMEOUT_MS = 3_000;
const CONNECTIONS = 16;
const LOOK_AGAIN_MS = 2_000;
/** A data plane that hangs must not hold a worker for longer. */
const PATIENCE_MS = 1_500;
/** A project's data plane follows its Secrets by watch, which takes milliseconds: worth a few quick looks. */
const QUICK_LOOKS_MS = [3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400];

interface Probe {
  method: 'GET' | 'HEAD';
  path: string;
  answers(answer: Answer): boolean;
}

const isOk = ({ status }: Answer) => status === 200;
/** True if a service answered: it rejected the token, or its owner closed the root path. */
const isThere = (answer: Answer) => isTokenAccepted(answer) || (answer.status < 500 && answer.status !== 404);

const PROBES: Readonly<Record<ProjectService, Probe>> = {
  auth: { method: 'GET', path: '/auth/v1/health', answers: isOk },
  rest: { method: 'HEAD', path: '/rest/v1/', answers: isThere },
  realtime: { method: 'GET', path: '/realtime/v1/api/health', answers: isOk },
  storage: { method: 'GET', path: '/storage/v1/status', answers: isOk },
  functions: { method: 'GET', path: '/functions/v1/_internal/health', answers: isOk },
};

/**
 * Each answered by who has verified the token: the gateway, and behind it REST and realtime, which may be programs of
 * their own.
 */
const VERIFIERS: readonly Probe[] = [
  { method: 'HEAD', path: '/rest/v1/', answers: isTokenAccepted },
  // Who is let in is told that this goes by POST.
  { method: 'GET', path: '/realtime/v1/api/broadcast', answers: isTokenAccepted },
];
const ACCEPTANCE_LOOK_AGAIN_MS = 500;

/** Without these it is no backend; another that the data plane has no service for is shown as unavailable. */
const NEEDED: readonly ProjectService[] = ['auth', 'rest', 'realtime'];
const NOT_RUN = 'HTTP 404';

export class ServiceProbe {
  readonly #dataplaneUrl: string;
  readonly #projectUrl: (ref: string) => string;
  readonly #agent = new Agent({ connections: CONNECTIONS, allowH2: false, headersTimeout: TIMEOUT_MS });

  constructor(dataplaneUrl: string, projectUrl: (ref: string) => string) {
    this.#dataplaneUrl = dataplaneUrl.replace(/\/$/, '');
    this.#projectUrl = projectUrl;
  }

  /**
   * `available`: what the project has by its type and plan. `direct`: the health of those that have pods of their own.
   */
  async ask(
    ref: string,
    anonKey: string,
    available: readonly ProjectService[],
    direct: Partial<Record<ProjectService, string>> = {},
  ): Promise<EngineOutcome<Services>> {
    const asked = await Promise.all(
      available.map(async (name) => {
        const said = await this.#untilAnswered(name, () => this.#lookAt(ref, anonKey, name, direct[name]));
        return { name, said };
      }),
    );
    const silent = asked.filter(({ name, said }) => said !== 'running' && !isAbsent(name, said));
    if (silent.length > 0) {
      const message = `waiting for ${silent.map(({ name, said }) => `${name} (${said})`).join(' and ')} to answer`;
      return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    }
    const url = this.#projectUrl(ref);
    const running = new Set(asked.filter(({ said }) => said === 'running').map(({ name }) => name));
    const services = PROJECT_SERVICES.map((name) => [
      name,
      running.has(name)
        ? { up: true, status: 'running', endpoint: `${url}/${name}/v1` }
        : { up: false, status: 'unavailable' },
    ]);
    return { state: 'ready', value: Object.fromEntries(services) };
  }

  /**
   * Whether every one of `origins`, and what is behind it, takes `key`: they learn of a new JWT secret each by itself.
   */
  async accepts(ref: string, key: string, origins: readonly string[] = [this.#dataplaneUrl]): Promise<EngineOutcome> {
    const looks = origins.flatMap((origin) => VERIFIERS.map((probe) => ({ origin, probe })));
    const asked = await Promise.all(
      looks.map(async ({ origin, probe }) => ({
        at: origin + probe.path,
        said: await this.#look(ref, key, probe, origin),
      })),
    );
    const refusing = asked.find(({ said }) => said !== 'running');
    if (!refusing) return { state: 'ready', value: undefined };
    const message = `waiting for ${refusing.at} to take tokens of the next JWT secret (${refusing.said})`;
    return { state: 'progressing', message, lookAgainMs: ACCEPTANCE_LOOK_AGAIN_MS };
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #untilAnswered(name: ProjectService, look: () => Promise<string>): Promise<string> {
    const end = performance.now() + PATIENCE_MS;
    let said = await look();
    for (const pause of QUICK_LOOKS_MS) {
      if (said === 'running' || isAbsent(name, said) || performance.now() > end) break;
      await new Promise((resolve) => setTimeout(resolve, pause));
      said = await look();
    }
    return said;
  }

  #lookAt(ref: string, anonKey: string, name: ProjectService, health: string | undefined): Promise<string> {
    if (health === undefined) return this.#look(ref, anonKey, PROBES[name]);
    const { origin, pathname } = new URL(health);
    // A connection that was made while the Service had no way to its pods yet leads elsewhere for as long as it is
    // kept.
    return this.#request(origin, { method: 'GET', path: pathname, answers: isOk }, { reset: true });
  }

  #look(ref: string, anonKey: string, probe: Probe, origin = this.#dataplaneUrl): Promise<string> {
    const headers = { apikey: anonKey, authorization: `Bearer ${anonKey}` };
    return this.#request(origin, { ...probe, path: `/p/${ref}${probe.path}` }, { headers });
  }

  /** `running`, or what it said instead, in a few words. */
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
      const answer = { status: statusCode, error: postgrestError(headers['proxy-status']) };
      return answers(answer) ? 'running' : `HTTP ${statusCode}`;
    } catch (error) {
      return (error as { code?: string }).code ?? 'no answer';
    }
  }
}

const isAbsent = (name: ProjectService, said: string) => said === NOT_RUN && !NEEDED.includes(name);
