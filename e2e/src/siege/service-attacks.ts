/** Attacks of one tenant on the services that others share, and on the management API. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { isThisMachine } from '../cluster/network.js';
import { clientOf } from '../todos.js';
import { type Attack, type Attacker, bearer, byRequests } from './attack.js';

const PERSON = { email: 'mallory@example.com', password: 'a long password' };
const LISTENERS = 20;
const PREPARE_PAUSE_MS = 250;

/** Sends a POST to a service of the attacker's project. */
function post({ platform, project }: Attacker, path: string, body: string, key = project.anon_key): Promise<Response> {
  return platform.network.fetch(`${project.project_url}${path}`, { method: 'POST', headers: bearer(key), body });
}

const signIn = (attacker: Attacker, password: string) =>
  post(attacker, '/auth/v1/token?grant_type=password', JSON.stringify({ email: PERSON.email, password }));

/** Runs SQL that an attack needs. The platform may be ending the sessions of the attack before. */
async function prepared({ person, project }: Attacker, signal: AbortSignal, sql: string): Promise<void> {
  for (;;) {
    try {
      return void (await person.query(project.id, sql));
    } catch (error) {
      if (signal.aborted) throw error;
      await sleep(PREPARE_PAUSE_MS);
    }
  }
}

/**
 * Creates a function of the attacker, unless an earlier try of the attack has, and returns the path of its operations.
 * That try may also have used up the account's budget of requests.
 */
async function createFunction({ person, project }: Attacker, name: string, code: string): Promise<string> {
  const functions = `/projects/${project.id}/functions`;
  for (;;) {
    const listed = await person.call<{ id: number; name: string }[]>('GET', functions);
    const present = listed.status === 200 ? listed.body.find((each) => each.name === name) : undefined;
    if (present) return `${functions}/${present.id}`;
    const { status, body } = await person.call<{ id: number }>('POST', functions, { name, code });
    if (status === 201) return `${functions}/${body.id}`;
    if (![409, 429, 503].includes(status)) {
      throw new Error(`the function was not created: ${status} ${JSON.stringify(body)}`);
    }
    await sleep(PREPARE_PAUSE_MS);
  }
}

export const SERVICE_ATTACKS: Attack[] = [
  {
    name: 'errors of a hundred megabytes over REST',
    run: async (attacker, signal) => {
      await prepared(
        attacker,
        signal,
        `create or replace function shout() returns text language plpgsql as $$
           begin raise exception '%', repeat('x', 100000000); end $$; notify pgrst, 'reload schema'`,
      );
      await byRequests(4, ({ platform, project }) =>
        platform.network.fetch(`${project.postgrest_url}/rpc/shout`, {
          method: 'POST',
          headers: bearer(project.anon_key),
          body: '{}',
        }),
      )(attacker, signal);
    },
  },
  {
    name: 'response headers, nested answers and nested bodies that are large to decode',
    run: async (attacker, signal) => {
      await prepared(
        attacker,
        signal,
        `create or replace function headers() returns void language sql as $$ select set_config('response.headers',
           (select json_agg(json_build_object('x-' || n, 'v'))::text from generate_series(1, 20000) n), true) $$;
         create or replace function nested() returns void language sql as $$ select set_config('response.headers',
           repeat('[', 5000000) || repeat(']', 5000000), true) $$;
         create table if not exists taken (a jsonb); grant all on taken to anon; notify pgrst, 'reload schema'`,
      );
      const nested = '['.repeat(4_500_000) + ']'.repeat(4_500_000);
      const wide = `[${Array.from({ length: 400_000 }, (_, n) => `{"k${n}":1}`).join(',')}]`;
      const sent = [
        ['/rpc/headers', '{}'],
        ['/rpc/nested', '{}'],
        ['/taken', nested],
        ['/taken', wide],
      ] as const;
      await byRequests(4, ({ platform, project }, n) => {
        const [path, body] = sent[n % sent.length] as (typeof sent)[number];
        const init = { method: 'POST', headers: bearer(project.anon_key), body };
        return platform.network.fetch(`${project.postgrest_url}${path}`, init);
      })(attacker, signal);
    },
  },
  {
    name: 'a catalogue of thousands of foreign keys, read again and again',
    run: async (attacker, signal) => {
      await prepared(
        attacker,
        signal,
        `do $$ begin
           create table if not exists hub (id int primary key);
           for n in 1..60 loop
             execute format('create table if not exists spoke_%s (%s)', n,
               (select string_agg(format('c%s int references hub', c), ', ') from generate_series(1, 50) c));
           end loop;
         end $$`,
      );
      const reload = async () => {
        while (!signal.aborted) {
          await attacker.person.query(attacker.project.id, `notify pgrst, 'reload schema'`).catch(() => undefined);
          await sleep(100);
        }
      };
      const read = byRequests(2, ({ platform, project }) =>
        platform.network.fetch(`${project.postgrest_url}/hub?select=*`, { headers: bearer(project.anon_key) }),
      );
      await Promise.all([reload(), read(attacker, signal)]);
    },
  },
  {
    name: 'functions that never return',
    run: async (attacker, signal) => {
      if (!attacker.services.includes('functions')) return void (await once(signal, 'abort'));
      const created = await createFunction(attacker, 'spin', 'Deno.serve(() => { for (;;); });');
      await attacker.person.call('POST', `${created}/deploy`);
      await byRequests(8, () => post(attacker, '/functions/v1/spin', '{}'))(attacker, signal);
    },
  },
  {
    name: 'bodies that are never completed, at the management API and at a project',
    run: async ({ platform, project }, signal) => {
      const sockets = [platform.url, project.postgrest_url].flatMap((url) => {
        const { hostname, port, host, pathname, protocol } = new URL(url);
        if (protocol !== 'http:' || !isThisMachine(hostname)) return [];
        return Array.from({ length: 600 }, (_, n) => {
          // Each address of 127.0.0.0/8 counts as a separate network, even for an Ingress on this machine.
          const localAddress = `127.0.0.${2 + (n % 4)}`;
          const socket = connect({ host: '127.0.0.1', port: Number(port), localAddress }).on('error', () => undefined);
          const path = pathname === '/' ? '/auth/login' : `${pathname}/taken`;
          const key = pathname === '/' ? '' : `apikey: ${project.anon_key}\r\n`;
          socket.write(`POST ${path} HTTP/1.1\r\nHost: ${host}\r\n${key}Content-Length: 1000\r\n\r\n{`);
          return socket;
        });
      });
      await once(signal, 'abort');
      for (const socket of sockets) socket.destroy();
    },
  },
  {
    name: 'functions that take all memory, and deploys without end',
    run: async (attacker, signal) => {
      if (!attacker.services.includes('functions')) return void (await once(signal, 'abort'));
      const code = 'Deno.serve(() => { const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1)); });';
      const created = await createFunction(attacker, 'greedy', code);
      const deploy = async () => {
        while (!signal.aborted) await attacker.person.call('POST', `${created}/deploy`).catch(() => sleep(100));
      };
      const call = byRequests(4, () => post(attacker, '/functions/v1/greedy', '{}'));
      await Promise.all([deploy(), deploy(), call(attacker, signal)]);
    },
  },
  {
    name: 'files without end',
    run: async (attacker, signal) => {
      if (!attacker.services.includes('storage')) return void (await once(signal, 'abort'));
      const { service_role_key: key } = attacker.project;
      await post(attacker, '/storage/v1/bucket', '{"name":"endless"}', key);
      const file = 'x'.repeat(10_000_000);
      await byRequests(4, (_, n) => post(attacker, `/storage/v1/object/endless/${n}`, file, key))(attacker, signal);
    },
  },
  {
    name: 'metadata of a user and of a file that is large to decode',
    run: async (attacker, signal) => {
      const { project } = attacker;
      const hasStorage = attacker.services.includes('storage');
      await post(attacker, '/auth/v1/signup', JSON.stringify(PERSON));
      await prepared(
        attacker,
        signal,
        `update auth.users set raw_user_meta_data =
           (select jsonb_object_agg('k' || n, n) from generate_series(1, 300000) n) where email = '${PERSON.email}'`,
      );
      if (hasStorage) {
        await post(attacker, '/storage/v1/bucket', '{"name":"heavy"}', project.service_role_key);
        await post(attacker, '/storage/v1/object/heavy/file', 'text', project.service_role_key);
        await prepared(
          attacker,
          signal,
          `update storage.objects set user_metadata = (repeat('[', 5000) || repeat(']', 5000))::jsonb,
             metadata = metadata || (select jsonb_object_agg('k' || n, n) from generate_series(1, 100000) n)
           where bucket_id = 'heavy'`,
        );
      }
      const list = () => post(attacker, '/storage/v1/object/list/heavy', '{"prefix":""}', project.service_role_key);
      const requests = byRequests(4, (_, n) =>
        hasStorage && n % 2 === 0 ? list() : signIn(attacker, PERSON.password),
      );
      await requests(attacker, signal);
    },
  },
  {
    name: 'messages without end to many listeners',
    run: async ({ platform, project }, signal) => {
      const channels = Array.from({ length: LISTENERS }, () => clientOf(project, platform.network).channel('flood'));
      for (const channel of channels) channel.on('broadcast', { event: 'flood' }, () => undefined).subscribe();
      const payload = { text: 'x'.repeat(50_000) };
      while (!signal.aborted) {
        await Promise.all(channels.map((channel) => channel.send({ type: 'broadcast', event: 'flood', payload })));
        await sleep(5);
      }
    },
  },
  {
    name: 'wrong passwords at the management API and at a project, and wrong keys at MCP',
    run: byRequests(24, (attacker, n) => {
      const { platform, person, project } = attacker;
      if (n % 3 === 0) return signIn(attacker, `wrong password ${n}`);
      const isMcp = n % 3 === 1;
      const body = isMcp
        ? { jsonrpc: '2.0', id: 1, method: 'ping' }
        : { email: person.email, password: `wrong password ${n}` };
      return platform.network.fetch(`${platform.url}${isMcp ? `/projects/${project.id}/mcp` : '/auth/login'}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(isMcp && { apikey: `wrong-${n}` }) },
        body: JSON.stringify(body),
      });
    }),
  },
];
