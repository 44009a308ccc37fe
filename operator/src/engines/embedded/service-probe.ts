/** Asks the data plane whether a project's services answer, as its clients would. */
import { Agent } from 'undici';
import type { EngineOutcome, Services } from '../engine.js';

const TIMEOUT_MS = 3_000;
const CONNECTIONS = 16;
const LOOK_AGAIN_MS = 2_000;
/** A data plane that hangs must not hold a worker for longer. */
const PATIENCE_MS = 1_500;
/** A project's data plane follows its Secrets by watch, which takes milliseconds: worth a few quick looks. */
const QUICK_LOOKS_MS = [3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 400];

const PROBES = [
  { name: 'auth', method: 'GET', path: '/auth/v1/health', answers: (status: number) => status === 200 },
  { name: 'rest', method: 'HEAD', path: '/rest/v1/', answers: (status: number) => status < 500 && status !== 404 },
] as const;

export class ServiceProbe {
  readonly #dataplaneUrl: string;
  readonly #projectUrl: (ref: string) => string;
  readonly #agent = new Agent({ connections: CONNECTIONS, allowH2: false, headersTimeout: TIMEOUT_MS });

  constructor(dataplaneUrl: string, projectUrl: (ref: string) => string) {
    this.#dataplaneUrl = dataplaneUrl.replace(/\/$/, '');
    this.#projectUrl = projectUrl;
  }

  async ask(ref: string, anonKey: string): Promise<EngineOutcome<Services>> {
    const asked = await Promise.all(
      PROBES.map(async (probe) => ({ ...probe, said: await this.#untilAnswered(ref, anonKey, probe) })),
    );
    const silent = asked.filter(({ said }) => said !== 'running');
    if (silent.length > 0) {
      const message = `waiting for ${silent.map(({ name, said }) => `${name} (${said})`).join(' and ')} to answer`;
      return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    }
    const url = this.#projectUrl(ref);
    const running = asked.map(({ name }) => [name, { up: true, status: 'running', endpoint: `${url}/${name}/v1` }]);
    return { state: 'ready', value: { ...Object.fromEntries(running), ...UNAVAILABLE } };
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #untilAnswered(ref: string, anonKey: string, probe: (typeof PROBES)[number]): Promise<string> {
    const end = performance.now() + PATIENCE_MS;
    let said = await this.#look(ref, anonKey, probe);
    for (const pause of QUICK_LOOKS_MS) {
      if (said === 'running' || performance.now() > end) break;
      await new Promise((resolve) => setTimeout(resolve, pause));
      said = await this.#look(ref, anonKey, probe);
    }
    return said;
  }

  /** `running`, or what it said instead, in a few words. */
  async #look(ref: string, anonKey: string, { method, path, answers }: (typeof PROBES)[number]): Promise<string> {
    try {
      const { statusCode, body } = await this.#agent.request({
        origin: this.#dataplaneUrl,
        path: `/p/${ref}${path}`,
        method,
        headers: { apikey: anonKey, authorization: `Bearer ${anonKey}` },
        bodyTimeout: TIMEOUT_MS,
      });
      await body.dump();
      return answers(statusCode) ? 'running' : `HTTP ${statusCode}`;
    } catch (error) {
      return (error as { code?: string }).code ?? 'no answer';
    }
  }
}

const UNAVAILABLE: Services = {
  storage: { up: false, status: 'unavailable' },
  realtime: { up: false, status: 'unavailable' },
};
