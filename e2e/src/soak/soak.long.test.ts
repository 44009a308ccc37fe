/**
 * Tests mixed load by real clients on several projects, while each process of the platform is killed in turn. The other
 * processes respond, the killed one is restored, and no acknowledged write is lost. The default is one round of kills.
 * SOAK_SECONDS=600 repeats it for ten minutes, and SEED=<number> repeats a run's choices.
 */
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { newSeed, randomFrom } from '@slipway/operator/chaos/chance.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from '../management.js';
import { newPlace, type PlatformPlace, startPlatform } from '../platform.js';
import { shuffled } from '../random.js';
import { type App, makeApp } from './app.js';
import { Calls } from './calls.js';
import { Talk } from './listeners.js';
import { Load, type Part } from './load.js';
import { Objects } from './objects.js';
import { Outages } from './outages.js';
import { Lives, Questions } from './owners.js';
import { report } from './report.js';
import { KINDS, Requests } from './requests.js';
import { Rows } from './rows.js';
import { Sessions } from './sessions.js';
import { Cluster, Tools } from './tools.js';
import { documented, type Stage, VICTIMS, type Victim } from './victims.js';

const PROJECTS = ['one', 'two', 'three'];
const ENVIRONMENT = { SLIPWAY_SERVICES_SHARED: 'storage,functions' };
/** Number of responses of each kind, for each project, before the next kill. */
const CALM = 3;
const LONGEST_CALM_MS = 1_500;
const BACK_PATIENCE_MS = 180_000;

const seed = Number(process.env.SEED) || newSeed();
const seconds = Number(process.env.SOAK_SECONDS) || 0;
const streams = randomFrom(seed);
/** Each part of the load has its own random stream, so that its choices do not depend on the speed of the others. */
const nextStream = () => randomFrom(streams() * 0x7fffffff);

test('docs/operations.md has the table of effects of a killed process', async () => {
  const page = await readFile(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
  assert.ok(page.includes(documented()), `docs/operations.md lacks this table:\n${documented()}`);
});

test(`killing any process under load affects only its own requests, and loses no write (SEED=${seed})`, async () => {
  say(`SEED=${seed}, ${seconds > 0 ? `${seconds} s` : 'one round of kills'}`);
  const place = await newPlace();
  const soak = await Soak.start(place);
  try {
    const end = performance.now() + seconds * 1000;
    do await soak.round();
    while (performance.now() < end);
    await soak.nothingIsLost();
  } finally {
    soak.tell();
    await soak.remove();
  }
});

interface Parts {
  rows: Rows;
  talk: Talk;
  lives: Lives;
  others: Part[];
}

class Soak {
  readonly #requests: Requests;
  readonly #outages: Outages;
  readonly #parts: Parts;
  readonly #load: Load;
  readonly #stage: Stage;

  private constructor(requests: Requests, stage: Stage, parts: Parts) {
    this.#requests = requests;
    this.#outages = new Outages(
      requests,
      stage.apps.map(({ ref }) => ref),
    );
    this.#parts = parts;
    this.#stage = stage;
    this.#load = new Load(this.#all, requests, nextStream());
  }

  static async start(place: PlatformPlace): Promise<Soak> {
    const platform = await startPlatform(place, ENVIRONMENT);
    const requests = new Requests();
    const network = requests.watching(platform.network);
    const at = { url: platform.url, network };
    const person = await Management.register(at);
    const apps: App[] = [];
    for (const name of PROJECTS) apps.push(await makeApp(person, name, network));
    const stage: Stage = {
      platform,
      apps,
      calls: new Calls(apps, nextStream()),
      random: nextStream(),
      startAgain: async () => {
        stage.platform = await startPlatform(place, ENVIRONMENT);
      },
    };
    const rows = new Rows(apps, nextStream());
    const talk = new Talk(apps, rows, requests, nextStream());
    await talk.start();
    const others = [
      stage.calls,
      new Sessions(apps, nextStream()),
      new Objects(apps, nextStream()),
      new Questions(person, at, apps, nextStream()),
      new Tools(platform.url, network, apps, nextStream()),
      new Cluster(platform.kubeconfig, apps, requests, nextStream()),
    ];
    return new Soak(requests, stage, { rows, talk, lives: new Lives(person, nextStream()), others });
  }

  get #all(): Part[] {
    const { rows, talk, lives, others } = this.#parts;
    return [rows, talk, lives, ...others];
  }

  /** Kills each process once. */
  async round(): Promise<void> {
    for (const victim of shuffled(this.#stage.random, VICTIMS)) await this.#kill(victim);
  }

  async #kill(victim: Victim): Promise<void> {
    const { random } = this.#stage;
    const calmSince = performance.now();
    const isCalm = async () => KINDS.every((kind) => this.#outages.answered(kind, CALM, calmSince)) || undefined;
    await until(isCalm, `everything responds before ${victim.title} is killed`, BACK_PATIENCE_MS);
    await sleep(random() * LONGEST_CALM_MS);
    const target = await victim.find(this.#stage);
    const subscriptions = this.#subscriptions();
    const outage = this.#outages.begin(victim.title, victim.mayFail, target.ref);
    process.kill(target.pid, 'SIGKILL');
    // The killed program must handle requests that were made during its absence.
    const created = victim.mayFail['management API'] ? undefined : await this.#parts.lives.create();
    await target.replaced();
    const isBack = async () => this.#outages.answersAgain(outage) || undefined;
    await until(isBack, `${victim.title} is back`, BACK_PATIENCE_MS);
    if (created) await this.#parts.lives.untilUsed(created);
    outage.to = performance.now();
    await this.#untilChangesReceived();
    if (victim.sockets === 'stay') {
      assert.equal(this.#subscriptions(), subscriptions, `subscriptions outlive ${victim.title}`);
    }
  }

  #subscriptions(): number[] {
    return [...this.#parts.talk.listeners.values()].map((listener) => listener.subscriptions.length);
  }

  /** Waits for changes at the subscribers of each project. */
  async #untilChangesReceived(): Promise<void> {
    for (const [app, listener] of this.#parts.talk.listeners) {
      await until(() => listener.listens, `Ann of ${app.ref} is subscribed`, BACK_PATIENCE_MS);
      const mark = await this.#parts.rows.insert(app, 'ann');
      await until(() => listener.hasReceived(mark), `Ann receives ${mark}`, BACK_PATIENCE_MS);
    }
  }

  async nothingIsLost(): Promise<void> {
    await this.#load.end();
    const lost: string[] = [];
    for (const part of this.#all) lost.push(...(await part.lost()));
    const problems = { lost, wrong: this.#load.wrong, unexcused: this.#outages.unexcused() };
    // All problems are compared together, because a run takes long.
    assert.equal(
      Object.entries(problems).flatMap(([what, found]) => firstOf(found).map((problem) => `${what}: ${problem}`)),
      [],
    );
  }

  tell(): void {
    for (const line of report(this.#requests, this.#outages)) say(line);
    say(this.#all.map(({ summary }) => summary).join(', '));
  }

  async remove(): Promise<void> {
    await this.#load.end();
    for (const { ann, bob } of this.#stage.apps) {
      await ann.removeAllChannels();
      await bob.removeAllChannels();
    }
    await this.#stage.platform.remove();
  }
}

const say = (line: string) => console.log(`# ${line}`);
const firstOf = (problems: string[]) =>
  problems.length > 30 ? [...problems.slice(0, 30), `and ${problems.length - 30} more`] : problems;

test.run();
