/**
 * The app of a tenant that is not attacked itself, under a steady load. It reads and writes rows, signs in, transfers
 * files, calls a function and listens, and checks every response. In: a platform. Out: for each service the wrong
 * responses, the 503 responses, and the latencies.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { RealtimeChannel } from '@supabase/supabase-js';
import type { Management, ProjectView } from '../management.js';
import type { Platform } from '../platform.js';
import { clientOf } from '../todos.js';

const ROWS = 20;
/** Milliseconds between two requests of a caller, which leave the machine time for the attack. */
const PAUSE_MS = 20;
const PATIENCE_MS = 60_000;
/**
 * Maximum milliseconds until a subscription starts. A new slot waits for open transactions, and a transaction that
 * writes nothing is ended after 60 s (SECURITY.md).
 */
const START_PATIENCE_MS = 120_000;
/** Number of requests for each refresh of the session. One address may refresh 150 sessions in five minutes. */
const REFRESH_EVERY = 100;
/** Number of requests for each sign-in, which costs processor time for the hash of the password. */
const SIGN_IN_EVERY = 20;
/** The content of the uploaded file. */
const FILE = 'x'.repeat(20_000);
const FUNCTION = 'echo';
const PERSON = { email: 'person@example.com', password: 'a long password' };

const TABLE_SQL = `
  create table entries (id bigint primary key, note text not null);
  insert into entries select n, 'note ' || n from generate_series(1, ${ROWS}) as n;
  create table written (id bigint primary key);
  create table received (id bigint primary key);
  grant all on entries, written, received to anon;
  alter publication supabase_realtime add table received;`;

const FILES_SQL = `
  create policy app on storage.objects for all to anon using (bucket_id = 'app') with check (bucket_id = 'app');
  create policy app on storage.buckets for select to anon using (id = 'app')`;

export const SERVICES = ['rest', 'auth', 'storage', 'functions', 'realtime'] as const;
export type Service = (typeof SERVICES)[number];

export interface Observation {
  service: Service;
  requests: number;
  /** Responses with a wrong status or body, and failed connections, each as text. */
  wrong: string[];
  /** The times of 503 responses with Retry-After. Without that header they are wrong responses. */
  unavailable: number[];
  latencies: number[];
  /** The latencies of the GET requests among them. */
  reads: number[];
}

interface AppSession {
  access_token: string;
  refresh_token: string;
}

interface Expected {
  status: number;
  /** Undefined: any body. */
  body?: string;
}

/** The result of sending a message: `accepted`, `unavailable`, or an error as text. */
type Speech = 'accepted' | 'unavailable' | (string & {});

export class Victim {
  readonly project: ProjectView;
  /** The services that this installation has for the project. */
  readonly services: readonly Service[];
  readonly #platform: Platform;
  #written = 0;
  #session: AppSession | undefined;

  private constructor(platform: Platform, project: ProjectView, services: readonly Service[]) {
    this.#platform = platform;
    this.project = project;
    this.services = services;
  }

  static async create(platform: Platform, person: Management): Promise<Victim> {
    const project = await person.untilHealthy((await person.createProject('victim')).id);
    await person.query(project.id, TABLE_SQL);
    const { body } = await person.call<{ services: Record<string, { up: boolean }> }>(
      'GET',
      `/projects/${project.id}/status`,
    );
    const services = SERVICES.filter((service) => body.services[service]?.up);
    if (!services.includes('rest')) throw new Error(`the victim has no REST, only ${services}`);
    const victim = new Victim(platform, project, services);
    await victim.#prepare(person);
    await victim.#warmUp();
    return victim;
  }

  async #prepare(person: Management): Promise<void> {
    const { id, service_role_key: key } = this.project;
    if (this.services.includes('storage')) {
      await person.query(id, FILES_SQL);
      const made = await this.#fetch('/storage/v1/bucket', { method: 'POST', body: '{"name":"app"}' }, key);
      if (!made.ok) throw new Error(`the bucket was not made: ${await made.text()}`);
    }
    if (this.services.includes('functions')) {
      const code = 'Deno.serve(async (request) => new Response(await request.text()));';
      const path = `/projects/${id}/functions`;
      const made = await person.call<{ id: number }>('POST', path, { name: FUNCTION, code });
      await person.call('POST', `${path}/${made.body.id}/deploy`);
    }
    const signUp = await this.#fetch('/auth/v1/signup', { method: 'POST', body: JSON.stringify(PERSON) });
    if (!signUp.ok) throw new Error(`nobody could sign up: ${await signUp.text()}`);
    this.#session = (await signUp.json()) as AppSession;
  }

  /** The first requests load the catalogue, open connections and start the function. */
  async #warmUp(): Promise<void> {
    for (const service of this.services) {
      const observation = newObservation(service);
      for (let n = 0; n < 20 && (n < 3 || observation.wrong.length > 0); n++) {
        observation.wrong.length = 0;
        if (service === 'realtime') await sleep(100);
        else await this.#turn(observation, n);
      }
      if (observation.wrong.length > 0) throw new Error(`the victim's app does not work: ${observation.wrong[0]}`);
    }
  }

  /** Sends requests until `signal` aborts. */
  async load(signal: AbortSignal): Promise<Observation[]> {
    const callers = this.services.map((service) =>
      service === 'realtime' ? this.#listen(signal) : this.#ask(service, signal),
    );
    return Promise.all(callers);
  }

  async #ask(service: Service, signal: AbortSignal): Promise<Observation> {
    const observation = newObservation(service);
    for (let n = 0; !signal.aborted; n++) {
      await this.#turn(observation, n);
      await sleep(PAUSE_MS);
    }
    return observation;
  }

  async #turn(observation: Observation, n: number): Promise<unknown> {
    switch (observation.service) {
      case 'rest':
        return n % 3 === 2 ? this.#write(observation) : this.#read(observation, 1 + (n % ROWS));
      case 'auth':
        if (n % REFRESH_EVERY === REFRESH_EVERY - 1) return this.#refresh(observation);
        return n % SIGN_IN_EVERY === 0 ? this.#signIn(observation) : this.#askWho(observation);
      case 'storage':
        return n % 2 === 0 ? this.#upload(observation) : this.#download(observation);
      case 'functions':
        return this.#call(
          observation,
          `/functions/v1/${FUNCTION}`,
          { method: 'POST', body: `call ${n}` },
          {
            status: 200,
            body: `call ${n}`,
          },
        );
    }
  }

  async #read(observation: Observation, id: number): Promise<void> {
    const expected = { status: 200, body: JSON.stringify([{ note: `note ${id}` }]) };
    await this.#call(observation, `/rest/v1/entries?select=note&id=eq.${id}`, {}, expected);
  }

  async #write(observation: Observation): Promise<void> {
    const body = JSON.stringify({ id: this.#written++ });
    await this.#call(observation, '/rest/v1/written', { method: 'POST', body }, { status: 201, body: '' });
  }

  async #askWho(observation: Observation): Promise<void> {
    const headers = { authorization: `Bearer ${this.#session?.access_token}` };
    const text = await this.#call(observation, '/auth/v1/user', { headers }, { status: 200 });
    const email = text === undefined ? PERSON.email : (JSON.parse(text) as { email: string }).email;
    if (email !== PERSON.email) observation.wrong.push(`GET /auth/v1/user: ${email}`);
  }

  async #refresh(observation: Observation): Promise<void> {
    const body = JSON.stringify({ refresh_token: this.#session?.refresh_token });
    const path = '/auth/v1/token?grant_type=refresh_token';
    const text = await this.#call(observation, path, { method: 'POST', body }, { status: 200 });
    if (text !== undefined) this.#session = JSON.parse(text) as AppSession;
  }

  async #signIn(observation: Observation): Promise<void> {
    const init = { method: 'POST', body: JSON.stringify(PERSON) };
    const text = await this.#call(observation, '/auth/v1/token?grant_type=password', init, { status: 200 });
    if (text !== undefined) this.#session = JSON.parse(text) as AppSession;
  }

  async #upload(observation: Observation): Promise<void> {
    const headers = { 'content-type': 'text/plain', 'x-upsert': 'true' };
    const init = { method: 'POST', body: FILE, headers };
    await this.#call(observation, '/storage/v1/object/app/file.txt', init, { status: 200 });
  }

  async #download(observation: Observation): Promise<void> {
    await this.#call(observation, '/storage/v1/object/app/file.txt', {}, { status: 200, body: FILE });
  }

  /** Receives its own broadcasts, and the changes of rows that it writes. */
  async #listen(signal: AbortSignal): Promise<Observation> {
    const observation = newObservation('realtime');
    const client = clientOf(this.project, this.#platform.network);
    const waiting = new Map<string, () => void>();
    const hears = (key: string) => waiting.get(key)?.();
    const channel = client
      .channel('app', { config: { broadcast: { self: true, ack: true } } })
      .on('broadcast', { event: 'message' }, ({ payload }) => hears(`broadcast ${payload.n}`))
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'received' }, ({ new: row }) =>
        hears(`row ${row.id}`),
      );
    try {
      await subscribed(channel);
      for (let n = 0; !signal.aborted; n++) {
        const id = this.#written++;
        const speak = n % 2 === 0 ? () => broadcast(channel, id) : () => this.#insertHeard(id);
        await hearing(observation, waiting, `${n % 2 === 0 ? 'broadcast' : 'row'} ${id}`, speak);
        await sleep(PAUSE_MS);
      }
    } catch (error) {
      observation.wrong.push((error as Error).message);
    } finally {
      await client.removeAllChannels();
    }
    return observation;
  }

  async #insertHeard(id: number): Promise<Speech> {
    const response = await this.#fetch('/rest/v1/received', { method: 'POST', body: JSON.stringify({ id }) });
    const text = await response.text();
    if (isUnavailable(response)) return 'unavailable';
    return response.status === 201 ? 'accepted' : `${response.status} ${text.slice(0, 200)}`;
  }

  #fetch(path: string, init: RequestInit, key = this.project.anon_key): Promise<Response> {
    const headers = {
      apikey: key,
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      ...(init.headers as Record<string, string> | undefined),
    };
    const url = `${this.project.project_url}${path}`;
    return this.#platform.network.fetch(url, { ...init, headers, signal: AbortSignal.timeout(PATIENCE_MS) });
  }

  /** Returns the body of a valid response. */
  async #call(
    observation: Observation,
    path: string,
    init: RequestInit,
    { status, body }: Expected,
  ): Promise<string | undefined> {
    const begin = performance.now();
    const name = `${init.method ?? 'GET'} ${path}`;
    observation.requests++;
    try {
      const response = await this.#fetch(path, init);
      const text = await response.text();
      if (isUnavailable(response)) observation.unavailable.push(begin);
      else if (response.status !== status || (body !== undefined && text !== body))
        observation.wrong.push(`${name}: ${response.status} ${text.slice(0, 200)}`);
      else {
        const latency = performance.now() - begin;
        observation.latencies.push(latency);
        if (init.method === undefined) observation.reads.push(latency);
        return text;
      }
    } catch (error) {
      observation.wrong.push(`${name}: ${(error as Error).message}`);
    }
    return undefined;
  }
}

async function broadcast(channel: RealtimeChannel, n: number): Promise<Speech> {
  const answer = await channel.send({ type: 'broadcast', event: 'message', payload: { n } });
  return answer === 'ok' ? 'accepted' : answer;
}

/** Resolves once the changes of the database are followed. */
function subscribed(channel: RealtimeChannel): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const answers = new Set<string>();
  const late = setTimeout(
    () => reject(new Error(`realtime did not start: ${[...answers].join(', ') || 'no answer'}`)),
    START_PATIENCE_MS,
  );
  channel.on('system', {}, ({ extension, status, message }) => {
    if (extension === 'postgres_changes' && status === 'ok') resolve();
    answers.add(`${status} ${message}`);
  });
  channel.subscribe((state, error) => answers.add(`${state} ${error?.message ?? ''}`));
  return promise.finally(() => clearTimeout(late));
}

/** Waits until `key` is received after `speak`. Does not wait for a message that was not accepted. */
async function hearing(
  observation: Observation,
  waiting: Map<string, () => void>,
  key: string,
  speak: () => Promise<Speech>,
): Promise<void> {
  const begin = performance.now();
  const { promise, resolve } = Promise.withResolvers<boolean>();
  waiting.set(key, () => resolve(true));
  const late = setTimeout(() => resolve(false), PATIENCE_MS);
  observation.requests++;
  try {
    const speech = await speak();
    if (speech === 'unavailable') observation.unavailable.push(begin);
    else if (speech !== 'accepted') observation.wrong.push(`${key}: ${speech}`);
    else if (await promise) observation.latencies.push(performance.now() - begin);
    else observation.wrong.push(`${key} was not received`);
  } catch (error) {
    observation.wrong.push(`${key}: ${(error as Error).message}`);
  } finally {
    clearTimeout(late);
    waiting.delete(key);
  }
}

const isUnavailable = ({ status, headers }: Response) => status === 503 && headers.has('retry-after');

export const newObservation = (service: Service): Observation => ({
  service,
  requests: 0,
  wrong: [],
  unavailable: [],
  latencies: [],
  reads: [],
});

/** Returns the latency in milliseconds that `share` of the responses did not exceed. */
export function percentile({ latencies }: Observation, share: number): number {
  const sorted = latencies.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Returns the latency in milliseconds of the slowest read; 0 without reads. */
export const slowestRead = (observations: readonly Observation[]): number =>
  observations.flatMap(({ reads }) => reads).reduce((slowest, latency) => Math.max(slowest, latency), 0);

/** Returns the milliseconds from the first 503 to the last. */
export const unavailability = ({ unavailable }: Observation): number =>
  unavailable.length === 0 ? 0 : Math.max(...unavailable) - Math.min(...unavailable);
