/**
 * Stores addresses that accounts gave up. A later holder of such an address must not inherit a project whose
 * `spec.owner` is that address. In: a transaction that changes or deletes an account. Each change adds an address, and
 * an account keeps only its newest former addresses.
 */
import type { EntityManager } from '@mikro-orm/postgresql';

/**
 * Maximum number of former addresses of an account. A manifest with one of them in `spec.owner` still belongs to the
 * account.
 */
const OF_AN_ACCOUNT = 20;

export async function keepFormerAddress(em: EntityManager, userId: number): Promise<void> {
  await em.execute(
    `with gone as (
       delete from platform.former_addresses f using platform.users u
       where u.id = ? and f.user_id = u.id and (f.address = u.email or f.id not in (
         select id from platform.former_addresses where user_id = u.id order by id desc limit ?
       )) returning f.address, f.verified
     )
     insert into platform.former_addresses (address, user_id, verified)
     select email, id, email_verified_at is not null
       or exists (select from gone where gone.address = u.email and gone.verified)
     from platform.users u where id = ?`,
    [userId, OF_AN_ACCOUNT - 1, userId],
  );
}

/** Stores the address without an account. The caller has made sure that the account owns nothing. */
export async function deleteAccount(em: EntityManager, userId: number): Promise<void> {
  await em.execute(
    `insert into platform.former_addresses (address, verified)
     select email, email_verified_at is not null from platform.users u where id = ? and not exists (
       select from platform.former_addresses f
       where f.address = u.email and f.user_id is null and f.verified = (u.email_verified_at is not null)
     )`,
    [userId],
  );
  await em.execute('delete from platform.users where id = ?', [userId]);
}
