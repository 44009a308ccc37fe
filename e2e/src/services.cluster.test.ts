/**
 * Tests storage and edge functions on a real cluster, in the platform's pods for them: their use, and data that
 * survives these pods.
 */
import { randomBytes } from 'node:crypto';
import { type Plan } from '@slipway/crds';
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { until } from '@slipway/testing';
import type { SupabaseClient } from '@supabase/supabase-js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { kubectl } from './kubectl.js';
import { Management, type ProjectView } from './management.js';
import { clientOf, TODOS_SQL } from './todos.js';

const PLANS: [Plan, string][] = [
  ['free', 'in the shared data plane'],
  ['pro', 'with pods and its own Postgres'],
];
const BUCKET_SQL = `
  insert into storage.buckets (id, name, public) values ('notes', 'notes', false);
  create policy "own" on storage.objects to authenticated
    using (owner_id = auth.uid()::text) with check (owner_id = auth.uid()::text);`;
const FUNCTION = `Deno.serve(async () => {
  const env = (name: string) => Deno.env.get(name)!;
  const headers = { apikey: env('SUPABASE_SERVICE_ROLE_KEY') };
  const rows = await fetch(env('SUPABASE_URL') + '/rest/v1/todos?select=task', { headers });
  console.log('was called');
  return Response.json({ greeting: env('GREETING'), rows: await rows.json() });
});`;
/** Tries to read everything in a pod that a tenant must not read. */
const ATTACK = `Deno.serve(async () => {
  const attempts: Record<string, () => Promise<unknown>> = {
    account: () => Deno.readTextFile('/var/run/secrets/kubernetes.io/serviceaccount/token'),
    token: () => Deno.readTextFile('/etc/slipway-functions/token'),
    parent: () => Deno.readTextFile('/proc/1/environ'),
    itself: () => Deno.readTextFile('/proc/self/environ'),
    others: async () => [...Deno.readDirSync('/var/lib/slipway/functions/deployed')],
    control: () => Deno.connect({ hostname: '127.0.0.1', port: 8081 }),
    gateway: () => Deno.connect({ hostname: '${PROGRAMS.dataplane}.${SYSTEM_NAMESPACE}.svc.cluster.local', port: 80 }),
    api: () => Deno.connect({ hostname: 'kubernetes.default.svc.cluster.local', port: 443 }),
    shell: () => new Deno.Command('/bin/sh').output(),
  };
  const said: Record<string, string> = {};
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      await attempt();
      said[name] = 'done';
    } catch (error) {
      said[name] = (error as Error).name;
    }
  }
  return Response.json(said);
});`;

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  let person: Management;
  const projects = new Map<Plan, ProjectView>();
  const inSystem = (...args: string[]) => kubectl(cluster.kubeconfig, ['-n', SYSTEM_NAMESPACE, ...args]);

  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
    person = await Management.register(platform);
    for (const [plan] of PLANS) {
      const { id } = await person.createProject(`services-${plan}`, plan);
      projects.set(plan, await person.untilHealthy(id));
      await person.query(id, TODOS_SQL);
      await person.query(id, BUCKET_SQL);
      await person.query(id, `insert into todos (owner, task) values (gen_random_uuid(), 'of ${plan}')`);
    }
  });
  test.after(async () => {
    const ids = [...projects.values()].map(({ id }) => id);
    await Promise.all(ids.map((id) => person?.call('DELETE', `/projects/${id}`)));
    await Promise.all(ids.map((id) => person?.untilGone(id)));
    await platform?.close();
  });

  const projectOf = (plan: Plan) => projects.get(plan) as ProjectView;
  const clientFor = (plan: Plan) => clientOf(projectOf(plan), platform.network);
  const whole = new Map<Plan, { client: SupabaseClient; bytes: Buffer }>();

  for (const [plan, how] of PLANS) {
    test(`a file in a project ${how} can be read only by its owner, and by a signed link`, async () => {
      const [client, other] = [clientFor(plan), clientFor(plan)];
      for (const [who, name] of [
        [client, 'ann'],
        [other, 'bob'],
      ] as const) {
        const { error } = await who.auth.signUp({ email: `${name}@example.com`, password: `a password of ${name}` });
        assert.is(error, null);
      }
      const bytes = randomBytes(3_000_000);
      const put = await client.storage.from('notes').upload('a.bin', bytes, { contentType: 'x/note' });
      assert.is(put.error, null);
      assert.ok(await isRead(client, bytes));
      assert.ok((await other.storage.from('notes').download('a.bin')).error);
      const { data } = await client.storage.from('notes').createSignedUrl('a.bin', 60);
      const linked = await platform.network.fetch(data?.signedUrl as string);
      assert.ok(Buffer.from(await linked.arrayBuffer()).equals(bytes));
      whole.set(plan, { client, bytes });
    });

    test(`a resumable upload to a project ${how} continues at the URL in its first response`, async () => {
      const { client } = whole.get(plan) as { client: SupabaseClient };
      const { project_url, anon_key } = projectOf(plan);
      const token = (await client.auth.getSession()).data.session?.access_token;
      const tus = { apikey: anon_key, authorization: `Bearer ${token}`, 'tus-resumable': '1.0.0' };
      const named = { bucketName: 'notes', objectName: 'parts.txt' };
      const begun = await platform.network.fetch(`${project_url}/storage/v1/upload/resumable`, {
        method: 'POST',
        headers: {
          ...tus,
          'upload-length': '6',
          'upload-metadata': Object.entries(named)
            .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
            .join(),
        },
      });
      assert.is(begun.status, 201, await begun.text());
      const place = new URL(begun.headers.get('location') as string, project_url);
      for (const [offset, text] of ['abc', 'def'].entries()) {
        const patched = await platform.network.fetch(place, {
          method: 'PATCH',
          headers: {
            ...tus,
            'upload-offset': String(offset * 3),
            'content-type': 'application/offset+octet-stream',
          },
          body: text,
        });
        assert.is(patched.status, 204, await patched.text());
      }
      assert.is(await (await client.storage.from('notes').download('parts.txt')).data?.text(), 'abcdef');
    });

    test(`a function of a project ${how} reads its variables and its project, and has a log`, async () => {
      const { id } = projectOf(plan);
      await expect200(person.call('PATCH', `/projects/${id}`, { env_vars: { GREETING: 'hello' } }));
      const func = await deployed(person, id, 'hello', FUNCTION);
      const expected = { greeting: 'hello', rows: [{ task: `of ${plan}` }] };
      const client = clientFor(plan);
      // The variable changes shortly after its Secret.
      const answer = await until(async () => {
        const { data } = await client.functions.invoke('hello');
        return data?.greeting ? data : undefined;
      }, 'the function finds its variable');
      assert.equal(answer, expected);
      const { body } = await person.call<{ message: string }[]>('GET', `/projects/${id}/functions/${func}/logs`);
      assert.ok(body.some(({ message }) => message === 'was called'));
    });

    test(`a function of a project ${how} can’t read anything of its pod`, async () => {
      const { id } = projectOf(plan);
      await deployed(person, id, 'attack', ATTACK);
      const { data, error } = await clientFor(plan).functions.invoke('attack');
      assert.is(error, null);
      const refused = ['account', 'token', 'parent', 'itself', 'others', 'control', 'gateway', 'api', 'shell'];
      assert.equal(data, Object.fromEntries(refused.map((name) => [name, 'NotCapable'])));
    });
  }

  test('files survive the deletion of the pod that serves them', async () => {
    await inSystem('delete', 'pod', `${PROGRAMS.storage}-0`);
    await inSystem('rollout', 'status', `statefulset/${PROGRAMS.storage}`, '--timeout=120s');
    for (const { client, bytes } of whole.values()) {
      await until(() => isRead(client, bytes), 'its file is read');
    }
  });

  test('functions survive the deletion of their pod, and are deployed again when the pod loses its disk', async () => {
    const pod = `${PROGRAMS.functions}-0`;
    for (const loss of ['', 'rm -rf /var/lib/slipway/functions']) {
      if (loss !== '') await inSystem('exec', pod, '--', 'sh', '-c', loss);
      await inSystem('delete', 'pod', pod);
      await inSystem('rollout', 'status', `statefulset/${PROGRAMS.functions}`, '--timeout=120s');
      for (const [plan] of PLANS) {
        await until(async () => {
          const { data } = await clientFor(plan).functions.invoke('hello');
          return data?.greeting === 'hello';
        }, `the function of ${plan} answers`);
      }
    }
  });
}

async function isRead(client: SupabaseClient, bytes: Buffer): Promise<boolean> {
  const { data } = await client.storage.from('notes').download('a.bin');
  return data !== null && Buffer.from(await data.arrayBuffer()).equals(bytes);
}

async function deployed(person: Management, project: number, name: string, code: string): Promise<number> {
  const path = `/projects/${project}/functions`;
  const created = await person.call<{ id: number }>('POST', path, { name, code });
  assert.is(created.status, 201, JSON.stringify(created.body));
  await expect200(person.call('POST', `${path}/${created.body.id}/deploy`));
  return created.body.id;
}

async function expect200(call: Promise<{ status: number; body: unknown }>): Promise<void> {
  const { status, body } = await call;
  assert.is(status, 200, JSON.stringify(body));
}

test.run();
