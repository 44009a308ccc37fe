/**
 * Attacks that run beside all others, by a separate account. Their target is the realtime of a project that starts
 * listening while the attacks have open transactions. In: the attacker, and an account for that project. The siege uses
 * it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import * as assert from 'uvu/assert';
import type { Management } from '../management.js';
import { clientOf } from '../todos.js';
import { asAdmin } from './admin-session.js';
import type { Attacker } from './attack.js';
import { attackFromProcess } from './attacker-process.js';
import { LASTING_ATTACKS } from './postgres-attacks.js';

/** Maximum milliseconds that the siege waits in total. A transaction that writes nothing is ended after 60 s. */
const PATIENCE_MS = 120_000;
const LISTENED_SQL = `
  create table received (id bigint primary key);
  grant all on received to anon;
  alter publication supabase_realtime add table received;`;

export class Lasting {
  readonly #attacker: Attacker;
  readonly #ending = new AbortController();
  readonly #attacks: Promise<void>[];
  #first: string[] = [];
  #started: Promise<number> | undefined;

  private constructor(attacker: Attacker) {
    this.#attacker = attacker;
    this.#attacks = LASTING_ATTACKS.map((attack) => attackFromProcess(attack, attacker, this.#ending.signal));
    // Failures are checked at the end.
    for (const attack of this.#attacks) attack.catch(() => {});
  }

  static async begin(attacker: Attacker, owner: Management): Promise<Lasting> {
    const lasting = new Lasting(attacker);
    await until(async () => {
      lasting.#first = await lasting.#open();
      return lasting.#first.length === LASTING_ATTACKS.length;
    }, 'transactions are open');
    const { id } = await owner.createProject('newcomer');
    const project = await owner.untilHealthy(id);
    await owner.query(id, LISTENED_SQL);
    lasting.#started = listened(clientOf(project, attacker.platform.network), lasting.#ending.signal);
    lasting.#started.catch(() => {});
    return lasting;
  }

  /** Checks that realtime of the new project works, and that the earlier open transactions were ended. */
  async isHarmless(): Promise<void> {
    const begin = performance.now();
    const late = sleep(PATIENCE_MS, undefined, { signal: this.#ending.signal }).then(() => undefined);
    const started = await Promise.race([this.#started, late, ...this.#attacks]);
    assert.ok(started !== undefined, 'realtime of a new project does not start');
    console.log(
      `\n# realtime of a new project started after ${(started / 1000).toFixed(0)} s beside open transactions`,
    );
    await until(
      async () => {
        const now = await this.#open();
        return !this.#first.some((each) => now.includes(each));
      },
      'the sessions with open transactions are ended',
      Math.max(PATIENCE_MS - (performance.now() - begin), 0),
    );
  }

  async end(): Promise<void> {
    this.#ending.abort();
    await Promise.allSettled(this.#attacks);
  }

  /** Returns the names of the attacker's transactions that have an id. */
  async #open(): Promise<string[]> {
    const { platform, project } = this.#attacker;
    const { database } = await platform.network.postgres(project.db_url);
    const { rows } = await asAdmin(platform, (client) =>
      client.query<{ name: string }>(
        `select pid || ' ' || xact_start as name from pg_stat_activity where datname = $1 and backend_xid is not null`,
        [database],
      ),
    );
    return rows.map(({ name }) => name);
  }
}

/** Resolves with the milliseconds until realtime follows changes. */
function listened(client: ReturnType<typeof clientOf>, signal: AbortSignal): Promise<number> {
  const begin = performance.now();
  const { promise, resolve } = Promise.withResolvers<number>();
  client
    .channel('app')
    .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'received' }, () => undefined)
    .on('system', {}, ({ extension, status }) => {
      if (extension === 'postgres_changes' && status === 'ok') resolve(performance.now() - begin);
    })
    .subscribe();
  signal.addEventListener('abort', () => void client.removeAllChannels(), { once: true });
  return promise;
}
