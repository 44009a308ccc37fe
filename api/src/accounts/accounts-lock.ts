/**
 * Runs work that must see every account one after another: registration decides who is first, administration who is the
 * last administrator. In: the ORM and the work. Out: the work's result, committed; an error rolls back.
 */
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';

/** Any number that nothing else in the platform database locks; the lock ends with the transaction. */
const ACCOUNTS_LOCK = 7_541_202;

export function withAccountsLock<T>(orm: MikroORM, work: (em: EntityManager) => Promise<T>): Promise<T> {
  return orm.em.fork().transactional(async (em) => {
    await em.execute('select pg_advisory_xact_lock(?)', [ACCOUNTS_LOCK]);
    return await work(em as EntityManager);
  });
}
