/**
 * Records projects that an account lost to another account, with time and reason, so that the former owner can see
 * them. Each project has one row, which is deleted after 90 days.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import type { LostProject } from './account.schema.js';

const KEPT = "interval '90 days'";
const SHOWN = 50;

@Injectable()
export class LostProjectsRepository {
  constructor(private readonly orm: MikroORM) {}

  /** Returns the lost projects, the latest first. */
  async of(userId: number): Promise<LostProject[]> {
    const rows = (await this.orm.em.fork().execute(
      `select ref, cause, lost_at from platform.lost_projects where user_id = ? and lost_at > now() - ${KEPT}
       order by lost_at desc, ref limit ${SHOWN}`,
      [userId],
    )) as { ref: string; cause: LostProject['cause']; lost_at: Date }[];
    return rows.map(({ ref, cause, lost_at }) => ({ ref, cause, lost_at: new Date(lost_at).toISOString() }));
  }

  async removeOld(): Promise<void> {
    await this.orm.em
      .fork()
      .execute(`delete from platform.lost_projects where lost_at <= now() - ${KEPT} returning ref`);
  }
}

/** Returns the SQL that records losses. `from` selects rows with user_id and ref. */
export const noteLoss = (cause: LostProject['cause'], from: string): string => `
  insert into platform.lost_projects (user_id, ref, cause) select user_id, ref, '${cause}' from ${from}
  on conflict (user_id, ref) do update set cause = excluded.cause, lost_at = now()`;
