/**
 * Operations of an administrator on a project in use, by fields of its Project: rotate credentials, suspend, retain.
 * One suite for every platform. An app that keeps sending requests detects any refusal.
 */
import { databaseOf, type Plan } from '@slipway/crds';
import pg from 'pg';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { stringify } from 'yaml';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { databaseObjectsOf } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import type { Network } from './network.js';
import type { Platform } from './platform.js';
import { clientOf } from './todos.js';
import { until } from './until.js';

const NOTES_SQL = `create table notes as select 'kept' as text; grant select on notes to anon;`;
const settingSql = (name: string, value: string) =>
  `do $$ begin execute format('alter database %I set pgrst.${name} = %L', current_database(), '${value}'); end $$;
   notify pgrst, 'reload config';`;
const REFUSING_SQL = `create function refuse_anon() returns void language plpgsql as $$ begin
    if current_user = 'anon' then raise insufficient_privilege using message = 'sign in first'; end if; end $$;
  ${settingSql('db_pre_request', 'public.refuse_anon')}`;
/** How often an app asks with each key after a rotation is over. */
const ASKED_AFTER = 30;
const WAIT = '--timeout=180s';

export interface Operated {
  plan: Plan;
  /** In a test's name: how projects of the plan run here. */
  how: string;
}

/** `platform` is asked when the tests run. */
export function operations(all: Test, platform: () => Platform, { plan, how }: Operated): void {
  // Without kubectl these count as skipped.
  const test = kubectlIsThere ? all : all.skip;
  const change = (ref: string, spec: object) =>
    kubectl(platform().kubeconfig, ['patch', 'project', ref, '--type=merge', '-p', JSON.stringify({ spec })]);

  test(`a project ${how}: while its JWT secret is rotated neither the key before nor the newest is refused, and who is signed in stays so`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'jwt-rotated', plan);
    const session = await signedIn(project, network);
    const app = new App(async (app) => {
      const { anon_key: newest } = await shown(person, project.id);
      for (const key of new Set([project.anon_key, newest])) await app.ask(network, project, key, key);
      await app.ask(network, project, newest, session);
    });
    await change(project.ref, { rotation: { jwtSecret: 1 } });
    const rotated = await until('another key', async () => {
      const now = await shown(person, project.id);
      return now.anon_key === project.anon_key ? undefined : now;
    });
    await app.finish();
    await app.ask(network, project, rotated.service_role_key, rotated.service_role_key);
    assert.equal(app.refusals, []);

    await change(project.ref, { rotation: { jwtSecret: 2 } });
    await until('the secret before the last to be refused', async () => {
      const { status } = await readNotes(network, project, project.anon_key, project.anon_key);
      return status === 401 || undefined;
    });
    await removed(person, project);
  });

  test(`a project ${how} is healthy and its JWT secret rotates, though its owner has shut the description of REST, or lets no anonymous caller in`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'shut', plan);
    const shutters = [
      { sql: settingSql('openapi_mode', 'disabled'), path: '' },
      { sql: `${settingSql('openapi_mode', 'follow-privileges')} ${REFUSING_SQL}`, path: 'notes' },
    ];
    let { anon_key: key } = project;
    for (const [index, { sql, path }] of shutters.entries()) {
      await person.query(project.id, sql);
      await until('it to be shut', async () => {
        const headers = { apikey: key };
        const { ok } = await network.fetch(`${project.project_url}/rest/v1/${path}`, { method: 'HEAD', headers });
        return !ok || undefined;
      });
      await change(project.ref, { rotation: { jwtSecret: index + 1 } });
      key = await until('another key', async () => {
        const { anon_key } = await shown(person, project.id);
        return anon_key === key ? undefined : anon_key;
      });
      await person.untilHealthy(project.id);
    }
    await removed(person, project);
  });

  test(`a project ${how}: while its database's passwords are rotated no request fails, and a URL is good from when it is shown`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'passwords-rotated', plan);
    const app = new App(async (app) => {
      await app.ask(network, project, project.anon_key, project.anon_key);
      await person.query(project.id, 'select 1');
    });
    await change(project.ref, { rotation: { databasePasswords: 1 } });
    const url = await until('another URL', async () => {
      const { db_url } = await shown(person, project.id);
      return db_url === project.db_url ? undefined : db_url;
    });
    assert.is(await enter(network, url), 'in');
    assert.is(await enter(network, project.db_url), '28P01');
    await app.finish();
    assert.equal(app.refusals, []);
    await removed(person, project);
  });

  test(`a project ${how} that is suspended answers 503 and lets nobody into its database; it comes back with its data`, async () => {
    const { network, kubeconfig } = platform();
    const { person, project } = await inUse(platform(), 'suspended', plan);
    await change(project.ref, { suspend: true });
    const { ref } = project;
    await kubectl(kubeconfig, ['wait', '--for=jsonpath={.status.phase}=suspended', `project/${ref}`, WAIT]);
    await until('the gateway to say so', async () => {
      const { status } = await readNotes(network, project, project.anon_key, project.anon_key);
      return status === 503 || undefined;
    });
    await until('the database to be closed', async () => (await enter(network, project.db_url)) !== 'in' || undefined);
    await change(ref, { suspend: false });
    await person.untilHealthy(project.id);
    await until('its data', async () => {
      const { status, text } = await readNotes(network, project, project.anon_key, project.anon_key);
      return (status === 200 && text === '[{"text":"kept"}]') || undefined;
    });
    assert.is(await enter(network, project.db_url), 'in');
    await removed(person, project);
  });

  test(`a project ${how} that changes hands has new credentials, and those of the former owner are refused`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'handed-over', plan);
    const heir = await Management.register(platform());
    const left = new pg.Client(await network.postgres(project.db_url));
    const ended = new Promise<void>((resolve) => left.on('error', () => resolve()));
    await left.connect();
    await change(project.ref, { owner: heir.email });
    const inherited = await until('the project to be shown to its new owner', async () => {
      const { body } = await heir.call<ProjectView[]>('GET', '/projects');
      return body.find(({ ref }) => ref === project.ref);
    });
    assert.is((await person.call('GET', `/projects/${project.id}`)).status, 404);
    await until('the keys of the former owner to be refused', async () => {
      const keys = [project.anon_key, project.service_role_key];
      const answers = await Promise.all(keys.map((key) => readNotes(network, project, key, key)));
      return answers.every(({ status }) => status === 401) || undefined;
    });
    await ended;
    assert.is(await enter(network, project.db_url), '28P01');
    const now = await until('credentials that are accepted', async () => {
      const view = await shown(heir, inherited.id);
      const { status } = await readNotes(network, view, view.anon_key, view.anon_key);
      return status === 200 ? view : undefined;
    });
    assert.is(await enter(network, now.db_url), 'in');
    assert.is.not(now.webhook_secret, project.webhook_secret);
    await removed(heir, now);
  });

  test(`the data of a project ${how} that is retained is refused to another, and its owner's again`, async () => {
    const { kubeconfig } = platform();
    const { person, project } = await inUse(platform(), 'retained', plan);
    const { ref } = project;
    await change(ref, { deletionPolicy: 'Retain' });
    await kubectl(kubeconfig, ['delete', 'project', ref, WAIT]);
    const apply = (owner: string) =>
      kubectl(
        kubeconfig,
        ['apply', '-f', '-'],
        stringify({ ...MANIFEST, metadata: { name: ref }, spec: { owner, plan } }),
      );
    await apply('somebody-else@example.com');
    await kubectl(kubeconfig, ['wait', '--for=jsonpath={.status.phase}=error', `project/${ref}`, WAIT]);
    const why = ['get', 'project', ref, '-o', 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}'];
    assert.is(await kubectl(kubeconfig, why), 'DatabaseRetained');
    await kubectl(kubeconfig, ['delete', 'project', ref, WAIT]);
    await apply(person.email);
    await kubectl(kubeconfig, ['wait', '--for=condition=Ready', `project/${ref}`, WAIT]);
    const again = await until('REST to show it', async () => {
      const { body } = await person.call<ProjectView[]>('GET', '/projects');
      return body.find((each) => each.ref === ref);
    });
    assert.equal((await person.query(again.id, 'select text from notes')).rows, [{ text: 'kept' }]);
    await removed(person, again);
    assert.equal(
      (await databaseObjectsOf(platform(), ref)).filter((name) => name === databaseOf(ref)),
      [],
    );
  });
}

const MANIFEST = { apiVersion: 'slipway.dev/v1alpha1', kind: 'Project' };

async function inUse(platform: Platform, name: string, plan: Plan) {
  const person = await Management.register(platform);
  const project = await person.untilHealthy((await person.createProject(name, plan)).id);
  await person.query(project.id, NOTES_SQL);
  await until('the table to be served', async () => {
    const { status } = await readNotes(platform.network, project, project.anon_key, project.anon_key);
    return status === 200 || undefined;
  });
  return { person, project };
}

const shown = async (person: Management, id: number) => (await person.call<ProjectView>('GET', `/projects/${id}`)).body;

async function removed(person: Management, { id }: ProjectView): Promise<void> {
  await person.call('DELETE', `/projects/${id}`);
  await person.untilGone(id);
}

async function signedIn(project: ProjectView, network: Network): Promise<string> {
  const credentials = { email: 'signed-in@example.com', password: 'a password of theirs' };
  const { data, error } = await clientOf(project, network).auth.signUp(credentials);
  assert.is(error, null);
  return data.session?.access_token as string;
}

async function readNotes(network: Network, { project_url }: ProjectView, key: string, token: string) {
  const response = await network.fetch(`${project_url}/rest/v1/notes?select=text`, {
    headers: { apikey: key, authorization: `Bearer ${token}` },
  });
  return { status: response.status, text: await response.text() };
}

/** `in`, or the code of the refusal. */
async function enter(network: Network, url: string): Promise<string> {
  const client = new pg.Client(await network.postgres(url));
  client.on('error', () => undefined);
  const said = await client.connect().then(
    () => 'in',
    (error: { code?: string }) => error.code ?? 'no answer',
  );
  await client.end().catch(() => undefined);
  return said;
}

/** Goes on asking until it is finished, and keeps what was refused. */
class App {
  readonly refusals: string[] = [];
  #rounds = 0;
  #wanted = Infinity;
  readonly #running: Promise<void>;

  constructor(round: (app: App) => Promise<void>) {
    this.#running = this.#run(round);
  }

  async ask(network: Network, project: ProjectView, key: string, token: string): Promise<void> {
    const { status, text } = await readNotes(network, project, key, token);
    // Who is signed in may not read the table, which is no refusal of the token.
    if (status !== 200 && !text.includes('42501')) this.refusals.push(`${status} ${text}`);
  }

  /** Some rounds more, after what happened has happened. */
  finish(): Promise<void> {
    this.#wanted = this.#rounds + ASKED_AFTER;
    return this.#running;
  }

  async #run(round: (app: App) => Promise<void>): Promise<void> {
    for (; this.#rounds < this.#wanted; this.#rounds++) {
      try {
        await round(this);
      } catch (error) {
        this.refusals.push((error as Error).message);
      }
    }
  }
}
