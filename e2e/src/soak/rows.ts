/**
 * Writes and reads rows with supabase-js as people of the app. Out: rows that must exist afterwards, and the time of
 * each write.
 */
import type { SupabaseClient } from '@supabase/supabase-js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';

export interface Written {
  mark: string;
  begun: number;
  /** Infinity: not acknowledged. */
  acknowledged: number;
}

const PAGE = 1000;

export class Rows implements Part {
  readonly #apps: readonly App[];
  readonly #random: () => number;
  readonly #kept = new Kept();
  /** Rows that Ann wrote, by the project's ref. */
  readonly byAnn = new Map<string, Written[]>();
  #count = 0;

  constructor(apps: readonly App[], random: () => number) {
    this.#apps = apps;
    this.#random = random;
    for (const { ref } of apps) this.byAnn.set(ref, []);
  }

  async step(): Promise<void> {
    const app = oneOf(this.#random, this.#apps);
    const by = oneOf(this.#random, ['ann', 'bob'] as const);
    const dice = this.#random();
    if (dice < 0.5) await this.insert(app, by);
    else if (dice < 0.7) await this.#change(app, by);
    else await this.#read(app, by);
  }

  /** Resolves with the mark of the new row. */
  async insert(app: App, by: 'ann' | 'bob'): Promise<string> {
    const mark = `${app.ref}/${by}/${++this.#count}`;
    const note = this.#note();
    const written = { mark, begun: performance.now(), acknowledged: Number.POSITIVE_INFINITY };
    if (by === 'ann') this.byAnn.get(app.ref)?.push(written);
    await this.#kept.attempt(mark, note, async () => {
      const { data } = await app[by].from('entries').insert({ mark, note }).select().single().throwOnError();
      if (data.note !== note) throw new Wrong(`the row ${mark} came back as another`);
    });
    written.acknowledged = performance.now();
    return mark;
  }

  async #change(app: App, by: 'ann' | 'bob'): Promise<void> {
    const own = this.#kept.names.filter((name) => name.startsWith(`${app.ref}/${by}/`));
    if (own.length === 0) return;
    const mark = oneOf(this.#random, own);
    const note = this.#note();
    await this.#kept.attempt(mark, note, async () => {
      const { data } = await app[by].from('entries').update({ note }).eq('mark', mark).select().throwOnError();
      if (data.length !== 1) throw new Wrong(`the row ${mark} was acknowledged, and is not there to be changed`);
    });
  }

  async #read(app: App, by: 'ann' | 'bob'): Promise<void> {
    const { data } = await app[by].from('entries').select('mark, note').limit(10).throwOnError();
    const strange = data.find(({ mark }) => !mark.startsWith(`${app.ref}/${by}/`));
    if (strange) throw new Wrong(`${by} of ${app.ref} sees ${strange.mark}`);
  }

  #note = () =>
    this.#random()
      .toString(36)
      .repeat(1 + Math.floor(this.#random() * 20));

  async lost(): Promise<string[]> {
    const found = new Map((await Promise.all(this.#apps.map(({ service }) => all(service)))).flat());
    const names = new Set([...this.#kept.names, ...found.keys()]);
    return [...names].flatMap((name) => this.#kept.problem(name, found.get(name)) ?? []);
  }

  get summary(): string {
    return `${this.#kept.names.length} rows`;
  }
}

async function all(client: SupabaseClient): Promise<[string, string][]> {
  const found: [string, string][] = [];
  for (;;) {
    const page = client.from('entries').select('mark, note').order('mark');
    const { data } = await page.range(found.length, found.length + PAGE - 1).throwOnError();
    found.push(...data.map(({ mark, note }): [string, string] => [mark, note]));
    if (data.length < PAGE) return found;
  }
}
