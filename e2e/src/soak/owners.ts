/**
 * Uses the management API as the owner of the projects: lists projects, runs SQL, registers other accounts, and creates
 * projects, of which some are deleted again. Out: accounts, projects and rows that must exist afterwards.
 */
import { until } from '@slipway/testing';
import { Management, type ProjectView } from '../management.js';
import type { Network } from '../network.js';
import { oneOf } from '../random.js';
import type { App } from './app.js';
import { Kept } from './kept.js';
import { type Part, Wrong } from './load.js';

const REGISTERING = 0.1;
/** Maximum number of created projects that stay, because each has a database. */
const KEPT_PROJECTS = 5;
const HEALTHY_PATIENCE_MS = 180_000;

interface Place {
  url: string;
  network: Network;
}

export class Questions implements Part {
  readonly #person: Management;
  readonly #place: Place;
  readonly #apps: readonly App[];
  readonly #random: () => number;
  readonly #kept = new Map<App, Kept>();
  readonly #others: Management[] = [];
  #count = 0;

  constructor(person: Management, place: Place, apps: readonly App[], random: () => number) {
    this.#person = person;
    this.#place = place;
    this.#apps = apps;
    this.#random = random;
    for (const app of apps) this.#kept.set(app, new Kept());
  }

  async step(): Promise<void> {
    const dice = this.#random();
    if (dice < REGISTERING) this.#others.push(await Management.register(this.#place));
    else if (dice < 0.5) await this.#list();
    else await this.#write(oneOf(this.#random, this.#apps));
  }

  async #list(): Promise<void> {
    const listed = await expected(200, this.#person.call<ProjectView[]>('GET', '/projects?limit=100'));
    const missing = this.#apps.find(({ ref }) => !listed.some((project) => project.ref === ref));
    if (missing) throw new Wrong(`the list of projects has no ${missing.ref}`);
  }

  async #write(app: App): Promise<void> {
    const mark = `asked-${++this.#count}`;
    await (this.#kept.get(app) as Kept).attempt(mark, mark, () =>
      this.#person.query(app.project.id, `insert into written values ('${mark}')`),
    );
  }

  async lost(): Promise<string[]> {
    const lost: string[] = [];
    for (const [{ project }, kept] of this.#kept) {
      const { rows } = await this.#person.query(project.id, "select string_agg(mark, ' ') as marks from written");
      const found = new Set(String(rows[0]?.marks ?? '').split(' '));
      lost.push(...kept.names.flatMap((name) => kept.problem(name, found.has(name) ? name : undefined) ?? []));
    }
    for (const other of this.#others) {
      const { status } = await other.call('GET', '/projects');
      if (status !== 200) lost.push(`the account ${other.email} is lost: ${status}`);
    }
    return lost;
  }

  get summary(): string {
    return `${this.#count} rows by /query, ${this.#others.length} accounts`;
  }
}

/** Projects are created and deleted. */
export class Lives implements Part {
  readonly #person: Management;
  readonly #random: () => number;
  /** Acknowledged projects by id. `deletionAsked` is true once a deletion was requested. */
  readonly #known = new Map<number, { project: ProjectView; deletionAsked: boolean; mark?: string }>();
  #count = 0;

  constructor(person: Management, random: () => number) {
    this.#person = person;
    this.#random = random;
  }

  async step(): Promise<void> {
    const project = await this.create();
    await this.untilUsed(project);
    const kept = [...this.#known.values()].filter(({ deletionAsked }) => !deletionAsked).length;
    if (kept <= KEPT_PROJECTS && this.#random() < 0.3) return;
    await this.#delete(project);
  }

  async create(): Promise<ProjectView> {
    const body = { name: `life-${++this.#count}` };
    const project = await expected(201, this.#person.call<ProjectView>('POST', '/projects', body));
    this.#known.set(project.id, { project, deletionAsked: false });
    return project;
  }

  /** Waits until the project is healthy and has a row, whichever program is unavailable. */
  async untilUsed({ id, name }: ProjectView): Promise<void> {
    const use = async () => {
      const { status } = await expected(200, this.#person.call<ProjectView>('GET', `/projects/${id}/status`));
      if (status !== 'healthy') return undefined;
      await this.#person.query(id, `create table if not exists kept as select '${name}' as mark`);
      return true;
    };
    await until(() => use().catch(() => undefined), `project ${name} is used`, HEALTHY_PATIENCE_MS);
    const entry = this.#known.get(id);
    if (entry) entry.mark = name;
  }

  async #delete({ id }: ProjectView): Promise<void> {
    const entry = this.#known.get(id);
    // The request may have been lost, so both outcomes are valid.
    if (entry) entry.deletionAsked = true;
    await expected(200, this.#person.call('DELETE', `/projects/${id}`));
  }

  async lost(): Promise<string[]> {
    const left = await until(async () => {
      const listed = await expected(200, this.#person.call<ProjectView[]>('GET', '/projects?limit=100'));
      return listed.every(({ status }) => status === 'healthy') ? new Set(listed.map(({ id }) => id)) : undefined;
    }, 'every project is healthy or deleted');
    const lost: string[] = [];
    for (const [id, { project, deletionAsked, mark }] of this.#known) {
      if (!left.has(id)) {
        if (!deletionAsked) lost.push(`project ${project.name} was acknowledged and is lost`);
      } else if (mark) {
        const { rows } = await this.#person.query(id, 'select mark from kept');
        if (rows[0]?.mark !== mark) lost.push(`the row of project ${project.name} is lost`);
      }
    }
    return lost;
  }

  get summary(): string {
    const deleted = [...this.#known.values()].filter(({ deletionAsked }) => deletionAsked).length;
    return `${this.#known.size} projects made, ${deleted} deleted`;
  }
}

async function expected<T>(wanted: number, call: Promise<{ status: number; body: T }>): Promise<T> {
  const { status, body } = await call;
  if (status !== wanted) throw new Error(`answered ${status}: ${JSON.stringify(body).slice(0, 300)}`);
  return body;
}
