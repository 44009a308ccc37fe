/**
 * Health of the platform: the database answers, Projects are watched, and an operator leads. Checked at most once a
 * second.
 */
import { MikroORM } from '@mikro-orm/postgresql';
import { Injectable } from '@nestjs/common';
import { type FieldError, Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ProjectCache } from '../kubernetes/project-cache.js';

const FRESH_MS = 1000;
const DATABASE_DEADLINE_MS = 2000;
/** Duration in seconds of a lease that does not state its duration. */
const LEASE_SECONDS = 15;

@Injectable()
export class HealthService {
  private readonly recent = recently(() => this.look());
  private readonly recentDatabase = recently(() => this.database());

  constructor(
    private readonly orm: MikroORM,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
  ) {}

  async check(): Promise<void> {
    const errors = await this.recent();
    if (errors.length === 0) return;
    const detail = errors.map(({ field, message }) => `${field}: ${message}`).join('; ');
    throw new Problem('unavailable', detail, { errors, headers: { 'retry-after': '1' } });
  }

  /** True if this program can serve requests: without its database it can't authenticate. */
  async isReady(): Promise<boolean> {
    return (await this.recentDatabase()) === undefined;
  }

  private async look(): Promise<FieldError[]> {
    const result = await Promise.all([this.recentDatabase(), this.watch(), this.operator()]);
    return result.filter((error) => error !== undefined);
  }

  private async database(): Promise<FieldError | undefined> {
    const late = AbortSignal.timeout(DATABASE_DEADLINE_MS);
    const deadline = new Promise<never>((_, reject) => {
      late.addEventListener('abort', () => reject(late.reason), { once: true });
    });
    const answers = await Promise.race([this.orm.em.fork().execute('select 1'), deadline]).then(
      () => true,
      () => false,
    );
    return answers ? undefined : { field: 'database', message: 'the platform database does not answer' };
  }

  private watch(): FieldError | undefined {
    return this.cache.synced ? undefined : { field: 'kubernetes', message: 'the watch of Projects is not connected' };
  }

  private async operator(): Promise<FieldError | undefined> {
    const lease = await this.kubernetes.operatorLease().catch(() => undefined);
    const { holderIdentity, renewTime, leaseDurationSeconds } = lease?.spec ?? {};
    const ends = renewTime ? Date.parse(renewTime) : 0;
    const leads = holderIdentity && ends + (leaseDurationSeconds ?? LEASE_SECONDS) * 1000 > Date.now();
    return leads ? undefined : { field: 'operator', message: 'no operator holds a fresh lease' };
  }
}

/** Caches the result of `look` for a second, for all callers. */
function recently<T>(look: () => Promise<T>): () => Promise<T> {
  let last: { at: number; result: Promise<T> } | undefined;
  return () => {
    const now = Date.now();
    if (!last || now - last.at > FRESH_MS) last = { at: now, result: look() };
    return last.result;
  };
}
