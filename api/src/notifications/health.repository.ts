/** Records of each project's health, for the notifications of its owner. */
import { type EntityManager, MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { isReached, isTooFarAhead, reachedValues } from '../outbox/reached-times.js';
import { sqlArray, sqlTime, sqlTimeOrNull } from '../outbox/sql-values.js';
import { firstRecord, type HealthRecord } from './health.js';

export interface ProjectIdentity {
  id: number;
  ref: string;
  uid: string | null;
}

interface HealthRow extends Omit<HealthRecord, 'since' | 'flappedAt' | 'lookAt'> {
  since: string;
  flappedAt: string | null;
  lookAt: string | null;
  observedAt: string | null;
}

const recordOf = ({ observedAt: _, ...row }: HealthRow): HealthRecord => ({
  ...row,
  since: sqlTime(row.since),
  flappedAt: sqlTimeOrNull(row.flappedAt),
  lookAt: sqlTimeOrNull(row.lookAt),
});

@Injectable()
export class HealthRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Returns the projects of these refs that have an id. */
  identities(refs: readonly string[]): Promise<ProjectIdentity[]> {
    return this.rows('select id, ref, uid from platform.projects where ref = any (?::text[])', [sqlArray(refs)]);
  }

  /** Returns the refs of projects whose state is to be looked at again. */
  async due(now: Date): Promise<string[]> {
    const sql = `select p.ref from platform.project_health h join platform.projects p on p.id = h.project_id
       where ${isReached('h.look_at')} order by h.look_at limit 500`;
    return (await this.rows<{ ref: string }>(sql, reachedValues(now))).map(({ ref }) => ref);
  }

  /**
   * Runs `work` with the record of a project, which is locked, and stores its result. Does nothing if the project was
   * deleted, or if a later status was recorded.
   */
  async change(
    id: number,
    { observedAt, now }: { observedAt: Date | undefined; now: Date },
    work: (known: HealthRecord, em: EntityManager) => Promise<HealthRecord>,
  ): Promise<void> {
    await this.orm.em.fork().transactional(async (em) => {
      const alive = await em.execute('select from platform.projects where id = ? for key share', [id]);
      if (alive.length === 0) return;
      await em.execute(
        `insert into platform.project_health (project_id, state, since) values (?, 'new', ?)
         on conflict do nothing returning project_id`,
        [id, now],
      );
      const [row] = (await em.execute(
        `select state, since, announced, flapped_at as "flappedAt", look_at as "lookAt", quotas,
           observed_at as "observedAt"
         from platform.project_health where project_id = ? for update`,
        [id],
      )) as [HealthRow | undefined];
      const known = row === undefined ? firstRecord(now) : recordOf(row);
      const recorded = sqlTimeOrNull(row?.observedAt ?? null);
      if (recorded && observedAt && recorded > observedAt && !isTooFarAhead(recorded, now)) return;
      const { state, since, announced, flappedAt, lookAt, quotas } = await work(known, em);
      await em.execute(
        `update platform.project_health
         set state = ?, since = ?, announced = ?, flapped_at = ?, look_at = ?, quotas = ?::jsonb, observed_at = ?
         where project_id = ? returning project_id`,
        [state, since, announced, flappedAt, lookAt, JSON.stringify(quotas), observedAt ?? recorded, id],
      );
    });
  }

  private rows<T>(sql: string, values: unknown[]): Promise<T[]> {
    return this.orm.em.fork().execute(sql, values) as unknown as Promise<T[]>;
  }
}
