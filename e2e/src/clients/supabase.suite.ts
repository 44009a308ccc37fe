/** Calls an unmodified supabase-js, one client for every service. Each service's own client has a separate suite. */
import { until } from '@slipway/testing';
import type { SupabaseClient } from '@supabase/supabase-js';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { clientOf } from '../todos.js';
import { type Inventory, Recorder } from './recorder.js';
import { good, type WalkedProject } from './walked-project.js';

const CLIENT: Inventory<SupabaseClient> = {
  from: 'works',
  schema: 'works',
  rpc: 'works',
  channel: 'works',
  getChannels: 'works',
  removeChannel: 'works',
  removeAllChannels: 'works',
};

export function walkSupabase(test: Test, given: () => WalkedProject): void {
  const recorder = new Recorder({ SupabaseClient: CLIENT });

  test('supabase-js: one client calls every service of the project as the signed-in user', async () => {
    const { person, project, platform } = given();
    await person.query(
      project.id,
      `create function who() returns text language sql stable as 'select auth.role()';
       create table own (id int primary key, owner uuid default auth.uid());
       alter table own enable row level security;
       create policy "their own" on own to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
       insert into storage.buckets (id, name, public) values ('own', 'own', false);
       create policy "their own" on storage.objects to authenticated
         using (bucket_id = 'own' and owner_id = auth.uid()::text) with check (bucket_id = 'own');
       notify pgrst, 'reload schema';`,
    );
    const email = 'walker@example.com';
    const admin = clientOf({ ...project, anon_key: project.service_role_key }, platform.network);
    good(await admin.auth.admin.createUser({ email, password: 'a long password', email_confirm: true }));
    const supabase = recorder.watch(clientOf(project, platform.network), 'SupabaseClient');
    assert.is((await supabase.rpc('who')).data, 'anon');
    const { user } = good(await supabase.auth.signInWithPassword({ email, password: 'a long password' }));
    assert.is((await supabase.rpc('who')).data, 'authenticated');
    assert.is((await supabase.from('own').insert({ id: 1 }).select().single()).data?.owner, user.id);
    assert.equal((await supabase.schema('public').from('own').select('id')).data, [{ id: 1 }]);
    good(await supabase.storage.from('own').upload('a.txt', 'a'));
    assert.is((await supabase.functions.invoke('echo', { body: 'x' })).data.body, 'x');

    const received: unknown[] = [];
    const channel = supabase.channel('walk', { config: { broadcast: { self: true } } });
    channel.on('broadcast', { event: 'x' }, ({ payload }) => received.push(payload));
    await new Promise<void>((resolve, reject) => {
      channel.subscribe((status, error) => {
        if (status === 'SUBSCRIBED') resolve();
        else if (status !== 'CLOSED') reject(error ?? new Error(status));
      });
    });
    await channel.send({ type: 'broadcast', event: 'x', payload: { n: 1 } });
    await until(() => received.length, 'the message');
    assert.is(supabase.getChannels().length, 1);
    assert.is(await supabase.removeChannel(channel), 'ok');
    assert.equal(await supabase.removeAllChannels(), []);
  });

  test('supabase-js: every public method was called above', () => {
    assert.equal(recorder.uncalled(), []);
  });
}
