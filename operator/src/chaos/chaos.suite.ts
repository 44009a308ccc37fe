/**
 * Chaos tests for any engine: projects are created, changed and deleted while everything around the operator fails. In:
 * a stage with a real API server, a way to start operators there, and an inventory of all objects that have some
 * project's name. SEED=<number> repeats the choices of a run.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type Project, type ProjectSpec } from '@slipway/crds';
import { OPERATOR_LEASE, SYSTEM_NAMESPACE } from '@slipway/installation';
import { isConflict, isNotFound, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import { FaultyApiServer } from '@slipway/kubernetes/faults/faulty-api-server.testing.js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { PROJECTS, projectPath } from '../controllers/project/resources.js';
import { newSeed, randomFrom } from './chance.js';
import { Operators } from './operators.testing.js';

/** Names of objects by kind. */
export type Inventory = Record<string, string[]>;

export interface Stage {
  /** Kubeconfig of the real API server. */
  kubeconfig: string;
  client: KubeClient;
  /** Environment of each operator, without the part that differs. */
  operatorEnvironment: Record<string, string>;
  /** Specs that new projects get in turn. */
  specs: Partial<ProjectSpec>[];
  restartApiServer(): Promise<void>;
  /** Returns all objects under the name of some project, and shared objects that must not grow in number. */
  inventory(): Promise<Inventory>;
  /** Returns the inventory if exactly these projects exist and are healthy. */
  expected(projects: Project[]): Inventory;
}

/** Creations and deletions during a failure. */
interface Load {
  creations: number;
  atOnce: number;
  /** Maximum milliseconds between two actions of a worker. */
  pauseMs: number;
}

const KILLS = 8;
const LONGEST_LIFE_MS = 3_000;
const CONVERGES_MS = 300_000;
/** Maximum milliseconds for the start of a program, because programs start slowly on a busy machine. */
const START_MS = 60_000;
const FAILOVER_MS = 60_000;
/**
 * Milliseconds of a network failure. They are more than the duration of a lease (12 s), and than any timeout or
 * lifetime of a request, connection or token (30 s).
 */
const CUT_MS = 40_000;
/** Milliseconds between attempts at a creation or deletion while the API server is unavailable. */
const ASK_AGAIN_MS = 100;
const ASK_FOR_MS = 60_000;

export function chaosSuite(test: Test, stageOf: () => Stage): void {
  const seed = Number(process.env.SEED) || newSeed();
  let tests = 0;

  /**
   * Runs `harm` while projects are created and deleted. Then checks the result, and checks again when all are deleted.
   */
  const promise = (name: string, operators: number, load: Load, harm: (scene: Scene) => Promise<void>) => {
    const number = ++tests;
    test(`${name}: everything converges, nothing is duplicated, nothing leaks (SEED=${seed})`, async () => {
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
        console.log(`# SEED=${seed}\n${scene.operators.output}`);
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
      // Most operators get the time to work, however slowly they start. The others are killed during their start.
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

  promise('a connection that is cut for 40 seconds', 1, { creations: 6, atOnce: 2, pauseMs: 3_000 }, async (scene) => {
    await scene.pause(3_000);
    const { starts } = scene.operators;
    await scene.api.cutFor(CUT_MS);
    assert.ok(scene.operators.starts > starts, 'the operator ended, since it could not renew its lease');
  });

  promise('watches that expire all the time', 1, { creations: 8, atOnce: 2, pauseMs: 2_000 }, async (scene) => {
    scene.api.fail({ watchMs: 1_000 });
    while (await scene.pause(3_000));
    assert.ok(scene.api.happened.expiredWatches > 3, 'watches expired');
  });

  promise('half of all writes refused, done or not', 1, { creations: 8, atOnce: 2, pauseMs: 2_000 }, async (scene) => {
    scene.api.fail({ failedWrites: 0.5 });
    // Until all is settled: few writes are in progress while creations and deletions are only requested.
    while (await scene.pause(2_000));
    await scene.converges();
    const { failedWrites, doneThough, waitedTooLittle } = scene.api.happened;
    assert.ok(failedWrites > 10 && doneThough > 2, `${failedWrites} refused, ${doneThough} of them done`);
    assert.equal(waitedTooLittle, [], 'no request before the end of Retry-After');
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
      // The killed operator runs again, and can take over.
      await scene.allReady();
      scene.operators.kill('SIGSTOP', [hung]);
      const third = await scene.leader(hung);
      scene.operators.kill('SIGCONT', [hung]);
      await until('the one that hung to end', async () => !scene.operators.pids.includes(hung), FAILOVER_MS);
      assert.is(await scene.leader(), third, 'the lease stays with its holder');
    },
  );
}

class Scene {
  /** Signal that aborts when no more projects are created or deleted. */
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
      console.log(`# ${scene.operators.output}`);
      await scene.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    await this.operators.close();
    await this.api.close();
  }

  /** Waits for at most `milliseconds`. Returns false once no more projects are created or deleted. */
  async pause(milliseconds: number): Promise<boolean> {
    const signal = this.lived.signal;
    await sleep(this.random() * milliseconds, undefined, { signal }).catch(() => {});
    return !signal.aborted;
  }

  /** Creates projects. Deletes some of them soon, some later, and keeps the others. */
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

  /** Cleans up after a failure: the next test must not find the projects of this one. */
  async abandon(): Promise<void> {
    this.lived.abort();
    this.api.fail({});
    await this.removeAll();
    const isOver = async () => (await this.projects()).length === 0;
    await until('no project left', isOver, CONVERGES_MS).catch((error: Error) => console.log(`# ${error.message}`));
  }

  async projects(): Promise<Project[]> {
    return (await this.#allProjects()).filter(({ metadata }) => metadata.name.startsWith(`${this.prefix}-`));
  }

  /** Returns all projects, also those that existed before. */
  async #allProjects(): Promise<Project[]> {
    return (await this.stage.client.get<{ items: Project[] }>(PROJECTS)).items;
  }

  async converges(): Promise<void> {
    let unsettled: string[] = [];
    await until(
      'every project to be healthy or deleted',
      async () => {
        const projects = await this.projects();
        unsettled = projects.filter((project) => !isHealthy(project)).map((project) => JSON.stringify(project));
        return unsettled.length === 0;
      },
      CONVERGES_MS,
    ).catch((error: Error) => assert.unreachable(`${error.message}\n${unsettled.join('\n')}`));
    let [wanted, found]: Inventory[] = [];
    await until(
      'exactly the expected objects',
      async () => {
        wanted = this.stage.expected(await this.#allProjects());
        found = await this.stage.inventory();
        return JSON.stringify(found) === JSON.stringify(wanted);
      },
      CONVERGES_MS,
    ).catch((error: Error) => {
      assert.equal(different(found, wanted), different(wanted, found));
      throw error;
    });
  }

  /** Waits until all operators are ready: those that do not lead can take over. */
  async allReady(): Promise<void> {
    await until('the operators to be ready', async () => this.operators.areReady, START_MS);
  }

  /** Returns the process id of the leading operator, once it differs from `former` and runs. */
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
    // A conflict: an earlier attempt of this test created the Project, and its response was lost.
    await asked(() => this.stage.client.create<object>(PROJECTS, project).catch(unlessConflict));
  }

  async #delete(name: string): Promise<void> {
    await asked(() => this.stage.client.delete(projectPath(name)).catch(unlessNotFound));
  }
}

interface Lease extends KubeObject {
  spec: { holderIdentity?: string };
}

/** Returns the entries of an inventory that another inventory does not have, or has with other values. */
const different = (inventory: Inventory = {}, other: Inventory = {}): Inventory =>
  Object.fromEntries(
    Object.entries(inventory).filter(([kind, names]) => JSON.stringify(names) !== JSON.stringify(other[kind])),
  );

const isHealthy = ({ metadata, status }: Project) =>
  !metadata.deletionTimestamp && status?.phase === 'healthy' && status.observedGeneration === metadata.generation;

/** Repeats a request while the API server is unavailable. */
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
