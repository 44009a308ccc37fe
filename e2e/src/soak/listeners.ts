/**
 * Listens in each project as Ann to changes of her rows, and to Bob's broadcasts in a channel. In: the written rows.
 * Out: broadcasts as requests. Checks that each subscription received all promised messages once, and nothing else.
 */
import { until } from '@slipway/testing';
import type { RealtimeChannel } from '@supabase/supabase-js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { type Part, Wrong } from './load.js';
import { Failed, type Requests } from './requests.js';
import type { Rows, Written } from './rows.js';

const RECEIVED_WITHIN_MS = 15_000;

/** The life of a channel, from its join to its end. */
interface Subscription {
  /** The time from which changes are followed. Infinity until the server confirms it. */
  since: number;
  over: boolean;
  received: string[];
}

export class Listener {
  readonly subscriptions: Subscription[] = [];
  readonly broadcasts = new Map<number, number>();
  readonly #app: App;
  readonly #changes: RealtimeChannel;
  readonly #receiving: RealtimeChannel;
  readonly #sending: RealtimeChannel;

  constructor(app: App) {
    this.#app = app;
    this.#changes = app.ann
      .channel('entries')
      .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'entries' }, ({ new: row }) =>
        this.#latest()?.received.push(row.mark),
      )
      .on('system', {}, ({ extension, status }) => {
        const latest = this.#latest();
        if (extension === 'postgres_changes' && status === 'ok' && latest) latest.since = performance.now();
      });
    this.#receiving = app.ann.channel('talk').on('broadcast', { event: 'message' }, ({ payload }) => {
      this.broadcasts.set(payload.n, (this.broadcasts.get(payload.n) ?? 0) + 1);
    });
    this.#sending = app.bob.channel('talk', { config: { broadcast: { ack: true } } });
  }

  async start(): Promise<void> {
    this.#changes.subscribe((status) => {
      const latest = this.#latest();
      if (latest) latest.over = true;
      if (status === 'SUBSCRIBED') {
        this.subscriptions.push({ since: Number.POSITIVE_INFINITY, over: false, received: [] });
      }
    });
    this.#receiving.subscribe();
    this.#sending.subscribe();
    await until(() => this.listens, `${this.#app.ref} follows changes`);
  }

  get listens(): boolean {
    const { since = Number.POSITIVE_INFINITY, over = true } = this.#latest() ?? {};
    return since < performance.now() && !over && this.#receiving.state === 'joined' && this.#sending.state === 'joined';
  }

  /** Sends a broadcast as Bob. Resolves once it is acknowledged and Ann received it. */
  async broadcast(n: number): Promise<void> {
    let answer: string | undefined;
    if (this.listens) {
      void this.#sending
        .send({ type: 'broadcast', event: 'message', payload: { n } })
        .then((how) => {
          answer = how;
        })
        .catch(() => {});
    }
    const isOver = () => !this.listens || (answer === 'ok' ? this.broadcasts.has(n) : answer !== undefined);
    await until(() => isOver(), 'received', RECEIVED_WITHIN_MS).catch(() => {
      throw new Failed('no answer');
    });
    if (answer === 'ok' && this.broadcasts.has(n)) return;
    throw new Failed(answer === 'timed out' ? 'no answer' : 'no connection');
  }

  hasReceived = (mark: string) => this.#latest()?.received.includes(mark) ?? false;

  /**
   * Returns the problems, in order of commits. If a change was received, the changes of all rows that were acknowledged
   * before it was written must have been received too.
   */
  problems(written: readonly Written[]): string[] {
    return this.subscriptions.flatMap(({ since, received }) => {
      const times = new Map(written.map((row) => [row.mark, row]));
      const once = new Set(received);
      const last = received.reduce((latest, mark) => Math.max(latest, times.get(mark)?.begun ?? 0), 0);
      const due = written.filter(({ begun, acknowledged }) => begun > since && acknowledged < last);
      return [
        ...received
          .filter((mark, at) => received.indexOf(mark) !== at)
          .map((mark) => `the change of ${mark} came twice`),
        ...received.filter((mark) => !times.has(mark)).map((mark) => `Ann received ${mark}, which is not hers`),
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
    await this.#requests.note('realtime', app.ref, 'broadcast', () => listener.broadcast(n));
    if ((listener.broadcasts.get(n) ?? 0) > 1) throw new Wrong(`broadcast ${n} came twice`);
  }

  async lost(): Promise<string[]> {
    return [...this.listeners].flatMap(([{ ref }, listener]) => listener.problems(this.#rows.byAnn.get(ref) ?? []));
  }

  get summary(): string {
    const received = [...this.listeners.values()].flatMap(({ subscriptions }) => subscriptions);
    const changes = received.reduce((sum, { received }) => sum + received.length, 0);
    return `${this.#count} broadcasts, ${changes} changes received by ${received.length} subscriptions`;
  }
}
