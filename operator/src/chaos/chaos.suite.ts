/**
 * Chaos: projects while everything around the operator fails, with any engine. In: a stage, which has a real API
 * server, a way to start operators there, and an inventory of everything under some project's name. SEED=<number>
 * repeats a run's choices.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { OPERATOR_LEASE, type Project, type ProjectSpec, SYSTEM_NAMESPACE } from '@slipway/crds';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROJECTS, projectPath } from '../controllers/project/resources.js';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '../runtime/kube.js';
import { newSeed, randomFrom } from './chance.js';
import { FaultyApiServer } from './faulty-api-server.testing.js';
import { Operators } from './operators.testing.js';

/** Names by what they are the names of. */
export type Inventory = Record<string, string[]>;

export interface Stage {
  /** Kubeconfig of the real API server. */
  kubeconfig: string;
  client: KubeClient;
  /** Environment of each operator, without its own part. */
  operatorEnvironment: Record<string, string>;
  /** Specs of projects, in turn. */
  specs: Partial<ProjectSpec>[];
  restartApiServer(): Promise<void>;
  /** All that stands under the name of some project, or is shared by them and must not grow. */
  inventory(): Promise<Inventory>;
  /** Returns the inventory of these projects, if they are all, and healthy. */
  expected(projects: Project[]): Inventory;
}

/** Creations and deletions during a failure. */
interface Load {
  creations: number;
  atOnce: number;
  /** Between a worker's acts, at most. */
  pauseMs: number;
}

const KILLS = 8;
const LONGEST_LIFE_MS = 3_000;
const CONVERGES_MS = 300_000;
/** Programs start slowly where much else runs. */
const START_MS = 60_000;
const FAILOVER_MS = 60_000;
const CUT_MS = 60_000;
/** A creation or deletion that the API server does not answer is asked again so often. */
const ASK_AGAIN_MS = 100;
const ASK_FOR_MS = 60_000;

export function chaosSuite(test: Test, stageOf: () => Stage): void {
  const seed = Number(process.env.SEED) || newSeed();
  let tests = 0;

  /** Runs `harm` while projects come and go, then looks whether all is right, and again when all are gone. */
  const promise = (name: string, operators: number, load: Load, harm: (scene: Scene) => Promise<void>) => {
    const number = ++tests;
    test(`${name}: everything converges, nothing is there twice, nothing leaks (SEED=${seed})`, async () => {
      const stage = stageOf();
      const scene = await Scene.begin(
        stage,
        randomFrom(seed + number),
        `chaos${number}-${seed.toString(36)}`,
        operators,
      );
      try {
        await Promise.all([scene.live(load).finally(() => scene.lived.abort()), harm(scene)]);
        scene.api.fail({});
        await scene.converges();
        await scene.removeAll();
        await scene.converges();
      } catch (error) {
        console.log(`# SEED=${seed}\n${scene.operators.said}`);
        await scene.abandon();
        throw error;
      } finally {
        await scene.end();
      }
    });
  };

  promise('operators killed at random moments', 1, { creations: 30, atOnce: 3, pauseMs: 4_000 }, async (scene) => {
    for (let kills = 0; kills < KILLS; kills++) {
      await sleep(scene.random() * LONGEST_LIFE_MS);
      scene.operators.kill('SIGKILL');
      // Of some it is seen that they work, however slowly they start; others are killed while they start.
      if (scene.random() < 0.7) await scene.leader(undefined, START_MS).catch(() => {});
    }
  });

  promise(
    'an API server that is killed and comes back',
    1,
    { creations: 6, atOnce: 2, pauseMs: 3_000 },
    async (scene) => {
      await scene.pause(3_000);
      await scene.stage.restartApiServer();
      await scene.pause(3_000);
      await scene.stage.restartApiServer();
    },
  );

  promise('a connection that is cut for a minute', 1, { creations: 6, atOnce: 2, pauseMs: 3_000 }, async (scene) => {
    await scene.pause(3_000);
    await scene.api.cutFor(CUT_MS);
  });

  promise('watches that expire all the time', 1, { creations: 8, atOnce: 2, pauseMs: 2_000 }, async (scene) => {
    scene.api.fail({ watchMs: 1_000 });
    while (await scene.pause(3_000));
    assert.ok(scene.api.happened.expiredWatches > 3, 'watches expired');
  });

  promise('half of all writes refused, done or not', 1, { creations: 8, atOnce: 2, pauseMs: 2_000 }, async (scene) => {
    scene.api.fail({ failedWrites: 0.5 });
    // Until all are settled: while creations and deletions are only asked for, few writes are under way.
    while (await scene.pause(2_000));
    await scene.converges();
    const { failedWrites, doneThough, waitedTooLittle } = scene.api.happened;
    assert.ok(failedWrites > 10 && doneThough > 2, `${failedWrites} refused, ${doneThough} of them done`);
    assert.equal(waitedTooLittle, [], 'a server that says Retry-After is left alone so long');
  });

  promise(
    'a leader that is killed, and one that hangs',
    2,
    { creations: 6, atOnce: 2, pauseMs: 3_000 },
    async (scene) => {
      await scene.allReady();
      const killed = await scene.leader();
      scene.operators.kill('SIGKILL', [killed]);
      const hung = await scene.leader(killed);
      // The one that was killed is back, to follow.
      await scene.allReady();
      scene.operators.kill('SIGSTOP', [hung]);
      const third = await scene.leader(hung);
      scene.operators.kill('SIGCONT', [hung]);
      await until('the one that hung to end', async () => !scene.operators.pids.includes(hung), FAILOVER_MS);
      assert.is(await scene.leader(), third, 'the lease stays with who has it');
    },
  );
}

class Scene {
  /** Ends when nothing more is made or deleted. */
  readonly lived = new AbortController();

  private constructor(
    readonly stage: Stage,
    readonly random: () => number,
    readonly prefix: string,
    readonly api: FaultyApiServer,
    readonly operators: Operators,
  ) {}

  static async begin(stage: Stage, random: () => number, prefix: string, operators: number): Promise<Scene> {
    const api = await FaultyApiServer.start(stage.kubeconfig, random);
    const env = { ...stage.operatorEnvironment, KUBECONFIG: api.kubeconfig };
    const scene = new Scene(stage, random, prefix, api, await Operators.start(operators, env));
    try {
      await scene.leader(undefined, START_MS);
      return scene;
    } catch (error) {
      console.log(`# ${scene.operators.said}`);
      await scene.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.operators.close();
    await this.api.close();
  }

  /** Waits for at most `milliseconds`; false once there is nothing more to wait for. */
  async pause(milliseconds: number): Promise<boolean> {
    const signal = this.lived.signal;
    await sleep(this.random() * milliseconds, undefined, { signal }).catch(() => {});
    return !signal.aborted;
  }

  /** Projects are made, some of them deleted young, some later, some not. */
  async live({ creations, atOnce, pauseMs }: Load): Promise<void> {
    let next = 0;
    const worker = async () => {
      while (next < creations) {
        const index = next++;
        const ref = `${this.prefix}-${index}`;
        await this.#create(ref, this.stage.specs[index % this.stage.specs.length] as Partial<ProjectSpec>);
        await this.pause(pauseMs);
        if (this.random() < 0.5) await this.#delete(ref);
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  async removeAll(): Promise<void> {
    await Promise.all((await this.projects()).map(({ metadata }) => this.#delete(metadata.name)));
  }

  /** After a failure: the next test must not find what this one left. */
  async abandon(): Promise<void> {
    this.lived.abort();
    this.api.fail({});
    await this.removeAll();
    const isOver = async () => (await this.projects()).length === 0;
    await until('the projects to go', isOver, CONVERGES_MS).catch((error: Error) => console.log(`# ${error.message}`));
  }

  async projects(): Promise<Project[]> {
    return (await this.#allProjects()).filter(({ metadata }) => metadata.name.startsWith(`${this.prefix}-`));
  }

  /** With those that were there before. */
  async #allProjects(): Promise<Project[]> {
    return (await this.stage.client.get<{ items: Project[] }>(PROJECTS)).items;
  }

  async converges(): Promise<void> {
    let unsettled: string[] = [];
    await until(
      'every project to be healthy or gone',
      async () => {
        const projects = await this.projects();
        unsettled = projects.filter((project) => !isHealthy(project)).map((project) => JSON.stringify(project));
        return unsettled.length === 0;
      },
      CONVERGES_MS,
    ).catch((error: Error) => assert.unreachable(`${error.message}\n${unsettled.join('\n')}`));
    let [wanted, found]: Inventory[] = [];
    await until(
      'no more and no less than what is wanted',
      async () => {
        wanted = this.stage.expected(await this.#allProjects());
        found = await this.stage.inventory();
        return JSON.stringify(found) === JSON.stringify(wanted);
      },
      CONVERGES_MS,
    ).catch((error: Error) => {
      assert.equal(found, wanted);
      throw error;
    });
  }

  /** Waits until all operators are ready: those that do not lead can take over. */
  async allReady(): Promise<void> {
    await until('the operators to be ready', async () => this.operators.areReady, START_MS);
  }

  /** The process id of the operator that leads, once it is another than `former` and runs. */
  async leader(former?: number, patienceMs = FAILOVER_MS): Promise<number> {
    const path = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/leases/${OPERATOR_LEASE}`;
    let leader = 0;
    const leads = async () => {
      const lease = await this.stage.client.get<Lease>(path).catch(unlessNotFound);
      const [, pid] = lease?.spec.holderIdentity?.split('_').reverse() ?? [];
      leader = Number(pid);
      return leader !== former && this.operators.pids.includes(leader);
    };
    await until(former === undefined ? 'an operator to lead' : 'another operator to lead', leads, patienceMs);
    return leader;
  }

  async #create(name: string, spec: Partial<ProjectSpec>): Promise<void> {
    const project = {
      apiVersion: 'slipway.dev/v1alpha1',
      kind: 'Project',
      metadata: { name },
      spec: { owner: 'chaos@example.com', name, ...spec },
    };
    // Made by an attempt of ours whose answer was lost.
    await asked(() => this.stage.client.create<object>(PROJECTS, project).catch(unlessConflict));
  }

  async #delete(name: string): Promise<void> {
    await asked(() => this.stage.client.delete(projectPath(name)).catch(unlessNotFound));
  }
}

interface Lease extends KubeObject {
  spec: { holderIdentity?: string };
}

const isHealthy = ({ metadata, status }: Project) =>
  !metadata.deletionTimestamp && status?.phase === 'healthy' && status.observedGeneration === metadata.generation;

/** Asks again while the API server is away. */
async function asked(ask: () => Promise<unknown>): Promise<void> {
  let why: unknown;
  await until(
    'the API server to answer',
    () =>
      ask().then(
        () => true,
        (error) => {
          why = error;
          return false;
        },
      ),
    ASK_FOR_MS,
  ).catch((error: Error) => {
    throw new Error(`${error.message}: ${why}`);
  });
}

async function until(what: string, look: () => Promise<boolean>, patience: number): Promise<void> {
  const deadline = Date.now() + patience;
  while (!(await look().catch(() => false))) {
    if (Date.now() > deadline) throw new Error(`waited in vain for ${what}`);
    await sleep(ASK_AGAIN_MS);
  }
}

function unlessConflict(error: unknown): undefined {
  if (!isConflict(error)) throw error;
}

function unlessNotFound(error: unknown): undefined {
  if (!isNotFound(error)) throw error;
}
