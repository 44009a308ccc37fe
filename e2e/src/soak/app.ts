/**
 * The app that runs in each project: a table and a bucket under row-level security, a function, and two people who are
 * signed in. In: who owns the projects. Out: clients, each of supabase-js. Made once, before the load.
 */
import type { SupabaseClient } from '@supabase/supabase-js';
import * as assert from 'uvu/assert';
import type { Management, ProjectView } from '../management.js';
import type { Network } from '../network.js';
import { clientOf } from '../todos.js';

export const BUCKET = 'files';
export const FUNCTION = 'echo';

const SQL = `
  create table entries (
    mark text primary key,
    owner uuid not null default auth.uid(),
    note text not null
  );
  alter table entries enable row level security;
  create policy "people see their own" on entries to authenticated using (owner = auth.uid()) with check (owner = auth.uid());
  alter publication supabase_realtime add table entries;
  create table written (mark text primary key);
  create policy "people keep their own" on storage.objects to authenticated
    using (owner_id = auth.uid()::text) with check (bucket_id = '${BUCKET}');
`;

/** Says which process answered, so that it can be found. */
const SOURCE = `
  Deno.serve(async (request: Request) => Response.json({ pid: Deno.pid, said: (await request.json()).said }));
`;

export interface App {
  project: ProjectView;
  ref: string;
  /** By the service_role key: sees all. */
  service: SupabaseClient;
  ann: SupabaseClient;
  bob: SupabaseClient;
  /** For others who sign up and in, one after another. */
  stranger: SupabaseClient;
}

export async function makeApp(person: Management, name: string, network: Network): Promise<App> {
  const project = await person.untilHealthy((await person.createProject(name)).id);
  await person.query(project.id, SQL);
  const service = clientOf({ ...project, anon_key: project.service_role_key }, network);
  assert.is((await service.storage.createBucket(BUCKET)).error, null);
  await deploy(person, project.id);
  return {
    project,
    ref: project.ref,
    service,
    ann: await signedUp(project, network, 'ann'),
    bob: await signedUp(project, network, 'bob'),
    stranger: clientOf(project, network),
  };
}

async function deploy(person: Management, id: number): Promise<void> {
  const made = await person.call<{ id: number }>('POST', `/projects/${id}/functions`, { name: FUNCTION, code: SOURCE });
  assert.is(made.status, 201, JSON.stringify(made.body));
  const deployed = await person.call('POST', `/projects/${id}/functions/${made.body.id}/deploy`);
  assert.is(deployed.status, 200, JSON.stringify(deployed.body));
}

async function signedUp(project: ProjectView, network: Network, name: string): Promise<SupabaseClient> {
  const client = clientOf(project, network);
  const { error } = await client.auth.signUp({ email: `${name}@example.com`, password: `a long password of ${name}` });
  assert.is(error, null);
  return client;
}
