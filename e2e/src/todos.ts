/** The small app that the tests run in a project: a table under row-level security, and two people who use it by supabase-js. */
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import * as assert from 'uvu/assert';
import type { ProjectView } from './management.js';

export const TODOS_SQL = `
  create table todos (
    id bigint generated always as identity primary key,
    owner uuid not null default auth.uid(),
    task text not null
  );
  alter table todos enable row level security;
  create policy "people see their own" on todos to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
`;

/** The options keep a client's session in memory alone, as in a server or a test. */
export const clientOf = ({ project_url, anon_key }: Pick<ProjectView, 'project_url' | 'anon_key'>): SupabaseClient =>
  createClient(project_url, anon_key, { auth: { persistSession: false, autoRefreshToken: false } });

/** Two people sign up, write, see only their own rows, refresh, and sign out. */
export async function usedByTwoPeople(project: ProjectView): Promise<void> {
  const [ann, bob] = [clientOf(project), clientOf(project)];
  for (const [name, client] of [
    ['ann', ann],
    ['bob', bob],
  ] as const) {
    const signedUp = await client.auth.signUp({ email: `${name}@example.com`, password: `a long password of ${name}` });
    assert.is(signedUp.error, null);
    assert.ok(signedUp.data.session, 'a session at once');
    const inserted = await client
      .from('todos')
      .insert({ task: `write to ${name}` })
      .select()
      .single();
    assert.is(inserted.error, null);
    assert.is(inserted.data.owner, signedUp.data.user?.id);
  }
  assert.equal(await tasks(ann), ['write to ann']);
  assert.equal(await tasks(bob), ['write to bob']);
  assert.equal(await tasks(clientOf(project)), [], 'a stranger sees nothing');

  const forged = await ann.from('todos').insert({ task: 'as bob', owner: (await bob.auth.getUser()).data.user?.id });
  assert.is(forged.error?.code, '42501', 'nobody writes in another’s name');

  const before = (await ann.auth.getSession()).data.session;
  const refreshed = await ann.auth.refreshSession();
  assert.is(refreshed.error, null);
  assert.is.not(refreshed.data.session?.refresh_token, before?.refresh_token);
  assert.equal(await tasks(ann), ['write to ann'], 'the refreshed token works');

  const last = refreshed.data.session;
  assert.is((await ann.auth.signOut()).error, null);
  const again = await clientOf(project).auth.refreshSession({ refresh_token: last?.refresh_token as string });
  assert.ok(again.error, 'a session that was signed out of is not refreshed');
}

async function tasks(client: SupabaseClient): Promise<string[]> {
  const { data, error } = await client.from('todos').select('task').order('id');
  assert.is(error, null);
  return (data ?? []).map(({ task }) => task);
}
