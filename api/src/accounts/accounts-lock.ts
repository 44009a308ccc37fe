/**
 * Runs work in a transaction, for one request at a time over all accounts. Registration needs it to recognise the first
 * account, and administration to keep the last administrator. In: the ORM and the work. Out: the committed result. If
 * the work fails, the transaction is rolled back.
 */
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql';

/** Id of the advisory lock, which no other code of the platform uses. The lock ends with the transaction. */
const ACCOUNTS_LOCK = 7_541_202;

export function withAccountsLock<T>(orm: MikroORM, work: (em: EntityManager) => Promise<T>): Promise<T> {
  return orm.em.fork().transactional(async (em) => {
    await em.execute('select pg_advisory_xact_lock(?)', [ACCOUNTS_LOCK]);
    return await work(em as EntityManager);
  });
}
