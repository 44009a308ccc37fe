/**
 * The app in each project: a table and a bucket under row-level security, a function, and two signed-in people. In: the
 * owner of the projects. Out: clients of supabase-js. Made once, before the load.
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
  create policy "people see their own" on entries to authenticated
    using (owner = auth.uid()) with check (owner = auth.uid());
  alter publication supabase_realtime add table entries;
  create table written (mark text primary key);
  create policy "people keep their own" on storage.objects to authenticated
    using (owner_id = auth.uid()::text) with check (bucket_id = '${BUCKET}');
`;

/** Source of the function, which returns the id of the process that runs it, so that this process can be found. */
const SOURCE = `
  Deno.serve(async (request: Request) => Response.json({ pid: Deno.pid, call: (await request.json()).call }));
`;

export interface App {
  project: ProjectView;
  ref: string;
  /** Uses the service_role key, and so sees all rows. */
  service: SupabaseClient;
  ann: SupabaseClient;
  bob: SupabaseClient;
  /** Used by other people who sign up and sign in, one after another. */
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
