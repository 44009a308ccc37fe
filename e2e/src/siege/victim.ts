/**
 * The app of a tenant that is not attacked itself, under a steady load: it reads and writes its rows, reads an object
 * and calls a function, and checks every response. In: a platform. Out: each response that was wrong, each 503, and the
 * latencies.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Management, ProjectView } from '../management.js';
import type { Platform } from '../platform.js';

const ROWS = 20;
/** Callers that each wait for their response before they send the next request. */
const CALLERS = 2;
/** Between two requests of a caller: a load that leaves the machine time for the attack. */
const PAUSE_MS = 20;

const TABLE_SQL = `
  create table entries (id bigint primary key, note text not null);
  insert into entries select n, 'note ' || n from generate_series(1, ${ROWS}) as n;
  create table written (id bigint primary key);
  grant all on entries, written to anon;`;

export interface Observation {
  requests: number;
  /** Responses with a wrong status or body, and connections that failed, each as text. */
  wrong: string[];
  /** Responses 503 without Retry-After are wrong; these had it. */
  unavailable: number[];
  latencies: number[];
}

export class Victim {
  readonly project: ProjectView;
  readonly #platform: Platform;
  #written = 0;

  private constructor(platform: Platform, project: ProjectView) {
    this.#platform = platform;
    this.project = project;
  }

  static async create(platform: Platform, person: Management): Promise<Victim> {
    const project = await person.untilHealthy((await person.createProject('victim')).id);
    await person.query(project.id, TABLE_SQL);
    const victim = new Victim(platform, project);
    await victim.#warmUp();
    return victim;
  }

  /** The first requests load the catalogue and open connections. */
  async #warmUp(): Promise<void> {
    const observation = newObservation();
    for (let n = 0; n < 20 && (n < 3 || observation.wrong.length > 0); n++) {
      observation.wrong.length = 0;
      await this.#read(observation, 1);
      await sleep(100);
    }
    if (observation.wrong.length > 0) throw new Error(`the victim's app does not work: ${observation.wrong[0]}`);
  }

  /** Sends requests until `signal` aborts. */
  async load(signal: AbortSignal): Promise<Observation> {
    const observation = newObservation();
    const caller = async () => {
      for (let n = 0; !signal.aborted; n++) {
        await (n % 3 === 2 ? this.#write(observation) : this.#read(observation, 1 + (n % ROWS)));
        await sleep(PAUSE_MS);
      }
    };
    await Promise.all(Array.from({ length: CALLERS }, caller));
    return observation;
  }

  async #read(observation: Observation, id: number): Promise<void> {
    await this.#call(observation, `entries?select=note&id=eq.${id}`, {}, 200, JSON.stringify([{ note: `note ${id}` }]));
  }

  async #write(observation: Observation): Promise<void> {
    const body = JSON.stringify({ id: this.#written++ });
    await this.#call(observation, 'written', { method: 'POST', body }, 201, '');
  }

  async #call(
    observation: Observation,
    path: string,
    init: RequestInit,
    status: number,
    expected: string,
  ): Promise<void> {
    const { anon_key: key, postgrest_url: url } = this.project;
    const headers = { apikey: key, authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const begin = performance.now();
    observation.requests++;
    try {
      const response = await this.#platform.network.fetch(`${url}/${path}`, {
        ...init,
        headers,
        signal: AbortSignal.timeout(60_000),
      });
      const text = await response.text();
      if (response.status === 503 && response.headers.has('retry-after')) observation.unavailable.push(begin);
      else if (response.status !== status || text !== expected)
        observation.wrong.push(`${init.method ?? 'GET'} ${path}: ${response.status} ${text.slice(0, 200)}`);
      else observation.latencies.push(performance.now() - begin);
    } catch (error) {
      observation.wrong.push(`${init.method ?? 'GET'} ${path}: ${(error as Error).message}`);
    }
  }
}

const newObservation = (): Observation => ({ requests: 0, wrong: [], unavailable: [], latencies: [] });

/** The latency in milliseconds that 99 of 100 responses did not exceed. */
export function p99({ latencies }: Observation): number {
  const sorted = latencies.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * 0.99))] ?? Number.NaN;
}

/** From the first 503 to the last, in milliseconds. */
export const unavailability = ({ unavailable }: Observation): number =>
  unavailable.length === 0 ? 0 : Math.max(...unavailable) - Math.min(...unavailable);
