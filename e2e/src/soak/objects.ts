/**
 * Uploads files as people of the app, replaces some, and downloads them again. Out: objects that must exist afterwards,
 * byte for byte.
 */
import { createHash, randomBytes } from 'node:crypto';
import { oneOf } from '../random.js';
import { type App, BUCKET } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';

const MOST_BYTES = 200_000;
const LARGE_BYTES = 3_000_000;
/** Share of large uploads. A large upload takes several writes, so that a kill can interrupt it. */
const LARGE = 0.05;
const REPLACING = 0.2;
const AT_ONCE = 4;

export class Objects implements Part {
  readonly #apps: readonly App[];
  readonly #random: () => number;
  readonly #kept = new Map<App, Kept>();
  #count = 0;
  #bytes = 0;

  constructor(apps: readonly App[], random: () => number) {
    this.#apps = apps;
    this.#random = random;
    for (const app of apps) this.#kept.set(app, new Kept());
  }

  async step(): Promise<void> {
    const app = oneOf(this.#random, this.#apps);
    const { names } = this.#kept.get(app) as Kept;
    if (names.length === 0 || this.#random() < 0.5) await this.#upload(app, names);
    else await this.#download(app, oneOf(this.#random, names));
  }

  async #upload(app: App, names: string[]): Promise<void> {
    const replace = names.length > 0 && this.#random() < REPLACING;
    const name = replace ? oneOf(this.#random, names) : `folder/${++this.#count}.bin`;
    const size = this.#random() < LARGE ? LARGE_BYTES : 1 + Math.floor(this.#random() * MOST_BYTES);
    const content = randomBytes(size);
    await (this.#kept.get(app) as Kept).attempt(name, digest(content), async () => {
      const { error } = await app.ann.storage.from(BUCKET).upload(name, content, { upsert: replace });
      if (error) throw error;
    });
    this.#bytes += size;
  }

  async #download(app: App, name: string): Promise<void> {
    const problem = await this.#problem(app, name);
    if (problem) throw new Wrong(problem);
  }

  async #problem(app: App, name: string): Promise<string | undefined> {
    const { data, error } = await app.ann.storage.from(BUCKET).download(name);
    if (error) throw error;
    return (this.#kept.get(app) as Kept).problem(name, digest(Buffer.from(await data.arrayBuffer())));
  }

  async lost(): Promise<string[]> {
    const left = [...this.#kept].flatMap(([app, kept]) => kept.names.map((name) => ({ app, name })));
    const problems: string[] = [];
    const worker = async () => {
      for (let next = left.pop(); next; next = left.pop()) {
        const { app, name } = next;
        const problem = await this.#problem(app, name).catch((error: Error) => `${name} is lost: ${error.message}`);
        if (problem) problems.push(`${app.ref}: ${problem}`);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return problems;
  }

  get summary(): string {
    const count = [...this.#kept.values()].reduce((sum, { names }) => sum + names.length, 0);
    return `${count} objects (${(this.#bytes / 1e6).toFixed(0)} MB written)`;
  }
}

const digest = (content: Buffer) => createHash('sha256').update(content).digest('hex');
