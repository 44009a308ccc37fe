/**
 * The small app that the tests run in a project: a table under row-level security, and two people who use it with
 * supabase-js.
 */
import { until } from '@slipway/testing';
import {
  createClient,
  type RealtimeChannel,
  type SupabaseClient,
  type WebSocketLikeConstructor,
} from '@supabase/supabase-js';
import * as assert from 'uvu/assert';
import type { ProjectView } from './management.js';
import type { Network } from './network.js';

export const TODOS_SQL = `
  create table todos (
    id bigint generated always as identity primary key,
    owner uuid not null default auth.uid(),
    task text not null
  );
  alter table todos enable row level security;
  create policy "people see their own" on todos to authenticated
    using (owner = auth.uid()) with check (owner = auth.uid());
  alter publication supabase_realtime add table todos;
`;

/** The settings of supabase-js. */
export type AppAddress = Pick<ProjectView, 'project_url' | 'anon_key'>;

/** Makes a client with a session in memory only, as in a server or a test. */
export const clientOf = ({ project_url, anon_key }: AppAddress, network: Network): SupabaseClient =>
  createClient(project_url, anon_key, {
    auth: { persistSession: false, autoRefreshToken: false },
    global: { fetch: network.fetch },
    realtime: { transport: network.WebSocket as WebSocketLikeConstructor },
  });

/** Two people sign up, write, receive and see only their own rows, refresh, and sign out. */
export async function usedByTwoPeople(project: AppAddress, network: Network): Promise<void> {
  const ann = await signedUp(project, network, 'ann');
  const bob = await signedUp(project, network, 'bob');
  const received = await heardBy(ann);
  // Bob writes first: if Ann could receive his row, she would receive it before hers.
  for (const [name, client] of [
    ['bob', bob],
    ['ann', ann],
  ] as const) {
    const inserted = await client
      .from('todos')
      .insert({ task: `write to ${name}` })
      .select()
      .single();
    assert.is(inserted.error, null);
    assert.is(inserted.data.owner, await idOf(client));
  }
  await until(() => received.length > 0, 'a row is received');
  assert.equal(received, ['write to ann']);
  await ann.removeAllChannels();
  assert.equal(await tasks(ann), ['write to ann']);
  assert.equal(await tasks(bob), ['write to bob']);
  assert.equal(await tasks(clientOf(project, network)), [], 'a stranger sees nothing');

  const forged = await ann.from('todos').insert({ task: 'as bob', owner: await idOf(bob) });
  assert.is(forged.error?.code, '42501', 'nobody writes in another’s name');
  await refreshedAndSignedOut(ann, clientOf(project, network));
}

async function signedUp(project: AppAddress, network: Network, name: string): Promise<SupabaseClient> {
  const client = clientOf(project, network);
  const { data, error } = await client.auth.signUp({
    email: `${name}@example.com`,
    password: `a long password of ${name}`,
  });
  assert.is(error, null);
  assert.ok(data.session, 'a session at once');
  return client;
}

/** Returns the tasks of the rows that realtime reports from now on. The array grows. */
export async function heardBy(client: SupabaseClient): Promise<string[]> {
  const received: string[] = [];
  const channel = client
    .channel('todos')
    .on('postgres_changes', { event: 'INSERT', schema: 'public', table: 'todos' }, ({ new: row }) =>
      received.push(row.task),
    );
  await listening(channel);
  return received;
}

/** Resolves once the channel is subscribed and follows the changes of the database. */
const listening = (channel: RealtimeChannel) =>
  new Promise<void>((resolve, reject) => {
    channel.on('system', {}, ({ extension, status, message }) => {
      if (extension !== 'postgres_changes') return;
      if (status === 'ok') resolve();
      // Another status reports that the slot is starting: it waits for transactions of other projects.
      if (status === 'error') reject(new Error(message));
    });
    channel.subscribe((status, error) => {
      if (status === 'CHANNEL_ERROR' || status === 'TIMED_OUT') reject(error ?? new Error(status));
    });
  });

/** `other` is a client of the same project without a session. */
async function refreshedAndSignedOut(client: SupabaseClient, other: SupabaseClient): Promise<void> {
  const before = (await client.auth.getSession()).data.session;
  const refreshed = await client.auth.refreshSession();
  assert.is(refreshed.error, null);
  const last = refreshed.data.session;
  assert.is.not(last?.refresh_token, before?.refresh_token);
  assert.equal(await tasks(client), ['write to ann'], 'the refreshed token works');

  assert.is((await client.auth.signOut()).error, null);
  const again = await other.auth.refreshSession({ refresh_token: last?.refresh_token as string });
  assert.ok(again.error, 'a session can’t be refreshed after a sign-out');
}

const idOf = async (client: SupabaseClient) => (await client.auth.getUser()).data.user?.id as string;

async function tasks(client: SupabaseClient): Promise<string[]> {
  const { data, error } = await client.from('todos').select('task').order('id');
  assert.is(error, null);
  return (data ?? []).map(({ task }) => task);
}
