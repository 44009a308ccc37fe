/**
 * Each attack of one tenant runs on a live platform while another tenant's app is under load. The app gets no wrong
 * response; it may get 503 with Retry-After for a moment, until the harmful session is ended; and projects can be
 * created meanwhile. One suite, for every platform there is.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import type { Platform } from './platform.js';
import { attackFromProcess } from './siege/attacker-process.js';
import { ATTACKS, type Attack, type Attacker } from './siege/attacks.js';
import { p99, unavailability, Victim } from './siege/victim.js';

/** How long an attack goes on at least; undefined: no attack is wanted. */
export const SECONDS = Number(process.env.SIEGE_SECONDS) || undefined;
/** A promise of SECURITY.md: until a harmful session is ended. */
const MOST_UNAVAILABLE_MS = 2_000;
const CREATION_PATIENCE_MS = 60_000;

/** `platform` is called when the tests run; an attack lasts `seconds` at least. */
export function siege(test: Test, platform: () => Platform, seconds: number): void {
  let victim: Victim;
  let attacker: Attacker;
  let owner: Management;
  let quiet = Number.NaN;

  test.before(async () => {
    const [people, mallory] = [await Management.register(platform()), await Management.register(platform())];
    owner = people;
    victim = await Victim.create(platform(), owner);
    const project = await mallory.untilHealthy((await mallory.createProject('attacker')).id);
    attacker = { platform: platform(), person: mallory, project };
    // What has just started is slower, and would hide what an attack costs.
    await observe('made-to-warm-up');
    const { observation } = await observe('made-in-quiet');
    assert.equal(observation.wrong, [], 'the quiet app works');
    quiet = p99(observation);
    console.log(`\n# quiet: ${observation.requests} requests, p99 ${quiet.toFixed(0)} ms`);
  });

  for (const [index, attack] of ATTACKS.entries()) {
    test(`a neighbour's app works and projects are created during: ${attack.name}`, async () => {
      const { observation, created } = await observe(`made-${index}`, attack);
      const ratio = (p99(observation) / quiet).toFixed(1);
      // On a line of its own: scripts/test.mjs shows those that begin so.
      console.log(
        `\n# ${attack.name}: ${observation.requests} requests, p99 × ${ratio}, ` +
          `${observation.unavailable.length} times 503 within ${unavailability(observation).toFixed(0)} ms`,
      );
      assert.equal(observation.wrong, []);
      assert.ok(unavailability(observation) <= MOST_UNAVAILABLE_MS, `503 for ${unavailability(observation)} ms`);
      assert.is(created.status, 'healthy');
    });
  }

  /** A project is created in the middle, also of the quiet run; the attack goes on until it is healthy. */
  async function observe(name: string, attack?: Attack) {
    const ending = new AbortController();
    const loading = victim.load(ending.signal);
    const attacking = attack && attackFromProcess(attack, attacker, ending.signal);
    try {
      const created = await Promise.race([creation(name), ...(attacking ? [attacking.then(() => never)] : [])]);
      ending.abort();
      const observation = await loading;
      await owner.call('DELETE', `/projects/${created.id}`);
      return { observation, created };
    } finally {
      ending.abort();
      await Promise.allSettled([attacking, loading]);
    }
  }

  async function creation(name: string) {
    const long = sleep(seconds * 1000);
    await sleep((seconds * 1000) / 3);
    const made = await owner.createProject(name);
    const created = await owner.untilHealthy(made.id, CREATION_PATIENCE_MS);
    await long;
    return created;
  }
}

const never = new Promise<never>(() => {});
