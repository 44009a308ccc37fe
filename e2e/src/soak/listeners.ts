/**
 * In each project Ann listens: to the changes of her rows, and to what Bob says to a channel. In: the rows that were
 * written. Out: broadcasts as requests; and whether each subscription heard all that it was promised, once, and nothing
 * else.
 */
import type { RealtimeChannel } from '@supabase/supabase-js';
import { oneOf } from '../random.js';
import { until } from '../until.js';
import type { App } from './app.js';
import { type Part, Wrong } from './load.js';
import { Failed, type Requests } from './requests.js';
import type { Rows, Written } from './rows.js';

const HEARD_WITHIN_MS = 15_000;

/** From when a channel is joined until it is not any more. */
interface Subscription {
  /** When changes are followed; Infinity until the server says so. */
  since: number;
  over: boolean;
  heard: string[];
}

export class Listener {
  readonly subscriptions: Subscription[] = [];
  readonly said = new Map<number, number>();
  readonly #app: App;
  readonly #changes: RealtimeChannel;
  readonly #hearing: RealtimeChannel;
  readonly #talking: RealtimeChannel;

  constructor(app: App) {
    this.#app = app;
    this.#changes = app.ann
      .channel('entries')
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'entries' }, ({ new: row }) =>
        this.#latest()?.heard.push(row.mark),
      )
      .on('system', {}, ({ extension, status }) => {
        const latest = this.#latest();
        if (extension === 'postgres_changes' && status === 'ok' && latest) latest.since = performance.now();
      });
    this.#hearing = app.ann.channel('talk').on('broadcast', { event: 'said' }, ({ payload }) => {
      this.said.set(payload.n, (this.said.get(payload.n) ?? 0) + 1);
    });
    this.#talking = app.bob.channel('talk', { config: { broadcast: { ack: true } } });
  }

  async start(): Promise<void> {
    this.#changes.subscribe((status) => {
      const latest = this.#latest();
      if (latest) latest.over = true;
      if (status === 'SUBSCRIBED') {
        this.subscriptions.push({ since: Number.POSITIVE_INFINITY, over: false, heard: [] });
      }
    });
    this.#hearing.subscribe();
    this.#talking.subscribe();
    await until(`${this.#app.ref} is listened to`, async () => this.listens || undefined);
  }

  get listens(): boolean {
    const { since = Number.POSITIVE_INFINITY, over = true } = this.#latest() ?? {};
    return since < performance.now() && !over && this.#hearing.state === 'joined' && this.#talking.state === 'joined';
  }

  /** Bob says it; resolves once it is acknowledged and Ann heard it. */
  async say(n: number): Promise<void> {
    let answer: string | undefined;
    if (this.listens) {
      void this.#talking
        .send({ type: 'broadcast', event: 'said', payload: { n } })
        .then((how) => {
          answer = how;
        })
        .catch(() => {});
    }
    const isOver = () => !this.listens || (answer === 'ok' ? this.said.has(n) : answer !== undefined);
    await until('heard', async () => isOver() || undefined, HEARD_WITHIN_MS).catch(() => {
      throw new Failed('no answer');
    });
    if (answer === 'ok' && this.said.has(n)) return;
    throw new Failed(answer === 'timed out' ? 'no answer' : 'no connection');
  }

  hears = (mark: string) => this.#latest()?.heard.includes(mark) ?? false;

  /** In order of commits: what was acknowledged before a row was written that was heard must have been heard, too. */
  problems(written: readonly Written[]): string[] {
    return this.subscriptions.flatMap(({ since, heard }) => {
      const times = new Map(written.map((row) => [row.mark, row]));
      const once = new Set(heard);
      const last = heard.reduce((latest, mark) => Math.max(latest, times.get(mark)?.begun ?? 0), 0);
      const due = written.filter(({ begun, acknowledged }) => begun > since && acknowledged < last);
      return [
        ...heard.filter((mark, at) => heard.indexOf(mark) !== at).map((mark) => `the change of ${mark} came twice`),
        ...heard.filter((mark) => !times.has(mark)).map((mark) => `Ann heard of ${mark}, which is not hers`),
        ...due.filter(({ mark }) => !once.has(mark)).map(({ mark }) => `the change of ${mark} was missed`),
      ];
    });
  }

  #latest = () => this.subscriptions.at(-1);
}

export class Talk implements Part {
  readonly listeners: ReadonlyMap<App, Listener>;
  readonly #rows: Rows;
  readonly #requests: Requests;
  readonly #random: () => number;
  #count = 0;

  constructor(apps: readonly App[], rows: Rows, requests: Requests, random: () => number) {
    this.listeners = new Map(apps.map((app) => [app, new Listener(app)]));
    this.#rows = rows;
    this.#requests = requests;
    this.#random = random;
  }

  async start(): Promise<void> {
    await Promise.all([...this.listeners.values()].map((listener) => listener.start()));
  }

  async step(): Promise<void> {
    const [app, listener] = oneOf(this.#random, [...this.listeners]);
    const n = ++this.#count;
    await this.#requests.note('realtime', app.ref, 'broadcast', () => listener.say(n));
    if ((listener.said.get(n) ?? 0) > 1) throw new Wrong(`broadcast ${n} came twice`);
  }

  async lost(): Promise<string[]> {
    return [...this.listeners].flatMap(([{ ref }, listener]) => listener.problems(this.#rows.byAnn.get(ref) ?? []));
  }

  get summary(): string {
    const heard = [...this.listeners.values()].flatMap(({ subscriptions }) => subscriptions);
    const changes = heard.reduce((sum, { heard }) => sum + heard.length, 0);
    return `${this.#count} broadcasts, ${changes} changes heard by ${heard.length} subscriptions`;
  }
}
