/**
 * Kills every process of the platform at random moments while projects are created, written to and deleted, and checks
 * the state after the next start. SEED=<number> repeats a run's choices.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { namespaceOf } from '@slipway/installation';
import { newSeed, randomFrom } from '@slipway/operator/chaos/chance.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allProjectObjects } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import { namespacesOfProjects } from './namespaces.js';
import { newPlace, type PlatformPlace, type RunningPlatform, startPlatform } from './platform.js';

const ROUNDS = 4;
const OPERATIONS = 50;
const AT_ONCE = 5;
/** Maximum milliseconds of a round, within which it is killed at a random moment. */
const LONGEST_ROUND_MS = 5_000;

const seed = Number(process.env.SEED) || newSeed();

/** Acknowledged writes, which must exist afterwards. */
interface Acknowledged {
  project: ProjectView;
  rows: number[];
  deletionAsked: boolean;
}

test(`acknowledged writes survive kill -9 at any moment, and no other objects stay (SEED=${seed})`, async () => {
  console.log(`# SEED=${seed}`);
  const random = randomFrom(seed);
  const place = await newPlace();
  let platform: RunningPlatform | undefined;
  const email = 'durable@example.com';
  const known = new Map<number, Acknowledged>();
  const left = { operations: OPERATIONS };
  try {
    platform = await startPlatform(place);
    const person = await Management.register(platform, email);
    for (let round = 1; round <= ROUNDS; round++) {
      platform = await killedRound(platform, place, person, known, left, random, round);
      await everythingIsRight(platform, person, known);
    }
  } finally {
    await platform?.remove();
  }
});

async function killedRound(
  platform: RunningPlatform,
  place: PlatformPlace,
  person: Management,
  known: Map<number, Acknowledged>,
  left: { operations: number },
  random: () => number,
  round: number,
): Promise<RunningPlatform> {
  const share = Math.ceil(left.operations / (ROUNDS - round + 1));
  left.operations -= share;
  const load = busy(person, known, share, random, round);
  await Promise.race([load.done, sleep(random() * LONGEST_ROUND_MS)]);
  await platform.kill();
  load.end();
  await load.done;
  return await startPlatform(place);
}

/**
 * Creates `count` projects, AT_ONCE at a time. Some are then written to and deleted. Failures after the platform's end
 * do not count.
 */
function busy(
  person: Management,
  known: Map<number, Acknowledged>,
  count: number,
  random: () => number,
  round: number,
) {
  let next = 0;
  let ended = false;
  const worker = async () => {
    while (next < count && !ended) {
      const name = `d${round}-${next++}`;
      const fate = random();
      await lifeOf(person, known, name, fate).catch(() => {});
    }
  };
  const done = Promise.all(Array.from({ length: AT_ONCE }, worker));
  return {
    done,
    end: () => {
      ended = true;
    },
  };
}

async function lifeOf(person: Management, known: Map<number, Acknowledged>, name: string, fate: number): Promise<void> {
  const project = await person.createProject(name);
  const entry: Acknowledged = { project, rows: [], deletionAsked: false };
  known.set(project.id, entry);
  if (fate < 0.25) return await remove(person, entry);
  await person.untilHealthy(project.id, 10_000);
  await person.query(project.id, 'create table if not exists kept (n int)');
  for (let n = 1; n <= 3; n++) {
    await person.query(project.id, `insert into kept values (${n})`);
    entry.rows.push(n);
  }
  if (fate < 0.5) await remove(person, entry);
}

async function remove(person: Management, entry: Acknowledged): Promise<void> {
  // The request may have been lost, so both outcomes are valid.
  entry.deletionAsked = true;
  await person.call('DELETE', `/projects/${entry.project.id}`);
}

async function everythingIsRight(
  platform: RunningPlatform,
  person: Management,
  known: Map<number, Acknowledged>,
): Promise<void> {
  let others: string[] = [];
  const listed = await until(async () => {
    const answer = await person.call<ProjectView[]>('GET', '/projects?limit=100').catch(() => undefined);
    if (answer?.status !== 200) return undefined;
    const { body } = answer;
    others = body.filter((project) => project.status !== 'healthy').map((project) => JSON.stringify(project));
    return others.length === 0 ? body : undefined;
  }, 'every project is healthy or deleted').catch((error) => {
    throw new Error(`${error.message}:\n${others.join('\n')}`);
  });
  const ids = new Set(listed.map(({ id }) => id));
  for (const [id, { project, rows, deletionAsked }] of known) {
    if (!ids.has(id)) {
      assert.ok(deletionAsked, `project ${project.name} was acknowledged and is lost`);
      known.delete(id);
      continue;
    }
    if (rows.length === 0) continue;
    const found = (await person.query(id, 'select n from kept order by n')).rows.map(({ n }) => n);
    assert.equal(found.slice(0, rows.length), rows, `rows of ${project.name}`);
  }
  await nothingIsOrphaned(platform, listed);
}

async function nothingIsOrphaned(platform: RunningPlatform, listed: ProjectView[]): Promise<void> {
  const refs = listed.map(({ ref }) => ref).sort();
  const expected = {
    databases: refs.map((ref) => `p-${ref}`).sort(),
    roles: refs.flatMap((ref) => ['auth_admin', 'authenticator', 'postgres'].map((role) => `${role}.${ref}`)).sort(),
    namespaces: refs.map(namespaceOf).sort(),
  };
  // Deletions in progress continue after the start.
  let found: unknown;
  await until(
    async () => {
      found = { ...(await allProjectObjects(platform)), namespaces: await namespacesOfProjects(platform.kubeconfig) };
      return JSON.stringify(found) === JSON.stringify(expected);
    },
    'no orphaned object',
    120_000,
  ).catch(() => assert.equal(found, expected));
}

test.run();
