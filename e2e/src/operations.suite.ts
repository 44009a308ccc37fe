/**
 * Tests an administrator's operations on a project in use, by fields of its Project: rotate credentials, suspend,
 * retain. Every platform runs this suite. An app that keeps sending requests detects any rejected request.
 */
import { type Plan } from '@slipway/crds';
import { databaseOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import pg from 'pg';
import type { Test } from 'uvu';
import * as assert from 'uvu/assert';
import { stringify } from 'yaml';
import { kubectl, kubectlIsThere } from './kubectl.js';
import { databaseObjectsOf } from './leftovers.js';
import { Management, type ProjectView } from './management.js';
import type { Network } from './network.js';
import type { Platform } from './platform.js';
import { sideBySide } from './side-by-side.js';
import { clientOf } from './todos.js';

const NOTES_SQL = `create table notes as select 'kept' as text; grant select on notes to anon;`;
const settingSql = (name: string, value: string) =>
  `do $$ begin execute format('alter database %I set pgrst.${name} = %L', current_database(), '${value}'); end $$;
   notify pgrst, 'reload config';`;
const REFUSING_SQL = `create function refuse_anon() returns void language plpgsql as $$ begin
    if current_user = 'anon' then raise insufficient_privilege using message = 'sign in first'; end if; end $$;
  ${settingSql('db_pre_request', 'public.refuse_anon')}`;
/** Number of requests of an app with each key after a rotation. */
const REQUESTS_AFTER = 30;
const WAIT = '--timeout=180s';
/** Number of operations that run at once, because they mostly wait for pods and namespaces. */
const AT_ONCE = 2;

export interface Operated {
  plan: Plan;
  /** Describes, in a test's name, how projects of the plan run here. */
  how: string;
}

/** `platform` is called when the tests run. */
export function operations(all: Test, platform: () => Platform, { plan, how }: Operated): void {
  // Without kubectl these tests count as skipped.
  const test = kubectlIsThere ? sideBySide(all, AT_ONCE) : all.skip;
  const change = (ref: string, spec: object) =>
    kubectl(platform().kubeconfig, ['patch', 'project', ref, '--type=merge', '-p', JSON.stringify({ spec })]);

  test(`a project ${how} accepts the old and the new key during a JWT secret rotation, and sessions stay`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'jwt-rotated', plan);
    const session = await signedIn(project, network);
    const app = new App(async (app) => {
      const { anon_key: newest } = await shown(person, project.id);
      for (const key of new Set([project.anon_key, newest])) await app.ask(network, project, key, key);
      await app.ask(network, project, newest, session);
    });
    await change(project.ref, { rotation: { jwtSecret: 1 } });
    const rotated = await until(async () => {
      const now = await shown(person, project.id);
      return now.anon_key === project.anon_key ? undefined : now;
    }, 'another key');
    await app.finish();
    await app.ask(network, project, rotated.service_role_key, rotated.service_role_key);
    assert.equal(app.refusals, []);

    await change(project.ref, { rotation: { jwtSecret: 2 } });
    await until(async () => {
      const { status } = await readNotes(network, project, project.anon_key, project.anon_key);
      return status === 401;
    }, 'the secret before the last to be refused');
    await removed(person, project);
  });

  test(`a project ${how} becomes healthy and rotates when REST is closed to anonymous callers`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'shut', plan);
    const shutters = [
      { sql: settingSql('openapi_mode', 'disabled'), path: '' },
      { sql: `${settingSql('openapi_mode', 'follow-privileges')} ${REFUSING_SQL}`, path: 'notes' },
    ];
    let { anon_key: key } = project;
    for (const [index, { sql, path }] of shutters.entries()) {
      await person.query(project.id, sql);
      await until(async () => {
        const headers = { apikey: key };
        const { ok } = await network.fetch(`${project.project_url}/rest/v1/${path}`, { method: 'HEAD', headers });
        return !ok;
      }, 'REST to be closed');
      await change(project.ref, { rotation: { jwtSecret: index + 1 } });
      key = await until(async () => {
        const { anon_key } = await shown(person, project.id);
        return anon_key === key ? undefined : anon_key;
      }, 'another key');
      await person.untilHealthy(project.id);
    }
    await removed(person, project);
  });

  test(`a project ${how} fails no request during a rotation of its database’s passwords`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'passwords-rotated', plan);
    const app = new App(async (app) => {
      await app.ask(network, project, project.anon_key, project.anon_key);
      await person.query(project.id, 'select 1');
    });
    await change(project.ref, { rotation: { databasePasswords: 1 } });
    const url = await until(async () => {
      const { db_url } = await shown(person, project.id);
      return db_url === project.db_url ? undefined : db_url;
    }, 'another URL');
    assert.is(await enter(network, url), 'in');
    assert.is(await enter(network, project.db_url), '28P01');
    await app.finish();
    assert.equal(app.refusals, []);
    await removed(person, project);
  });

  for (const by of ['kubectl', 'its owner'] as const) {
    test(`a project ${how} that ${by} suspends responds 503, and is resumed with its data`, async () => {
      const { network, kubeconfig } = platform();
      const { person, project } = await inUse(platform(), 'suspended', plan);
      const { ref } = project;
      const ask = (suspended: boolean) => person.call('PATCH', `/projects/${project.id}`, { suspended });
      const suspend = async (suspended: boolean) => {
        if (by === 'kubectl') return change(ref, { suspend: suspended });
        assert.is((await ask(suspended)).status, 200);
      };
      await suspend(true);
      await kubectl(kubeconfig, ['wait', '--for=jsonpath={.status.phase}=suspended', `project/${ref}`, WAIT]);
      await until(async () => {
        const { status } = await readNotes(network, project, project.anon_key, project.anon_key);
        return status === 503;
      }, 'the gateway to respond 503');
      await until(async () => (await enter(network, project.db_url)) !== 'in', 'the database to be closed');
      if (by === 'kubectl') assert.is((await ask(false)).status, 409);
      await suspend(false);
      await person.untilHealthy(project.id);
      await until(async () => {
        const { status, text } = await readNotes(network, project, project.anon_key, project.anon_key);
        return status === 200 && text === '[{"text":"kept"}]';
      }, 'its data');
      assert.is(await enter(network, project.db_url), 'in');
      await removed(person, project);
    });
  }

  test(`a project ${how} gets new credentials when its owner changes, and rejects the old credentials`, async () => {
    const { network } = platform();
    const { person, project } = await inUse(platform(), 'handed-over', plan);
    const heir = await Management.register(platform());
    const left = new pg.Client(await network.postgres(project.db_url));
    const ended = new Promise<void>((resolve) => left.on('error', () => resolve()));
    await left.connect();
    await change(project.ref, { owner: heir.email });
    const inherited = await until(async () => {
      const { body } = await heir.call<ProjectView[]>('GET', '/projects');
      return body.find(({ ref }) => ref === project.ref);
    }, 'the project to be shown to its new owner');
    assert.is((await person.call('GET', `/projects/${project.id}`)).status, 404);
    await until(async () => {
      const keys = [project.anon_key, project.service_role_key];
      const answers = await Promise.all(keys.map((key) => readNotes(network, project, key, key)));
      return answers.every(({ status }) => status === 401);
    }, 'the keys of the former owner to be refused');
    await ended;
    assert.is(await enter(network, project.db_url), '28P01');
    const now = await until(async () => {
      const view = await shown(heir, inherited.id);
      const { status } = await readNotes(network, view, view.anon_key, view.anon_key);
      return status === 200 ? view : undefined;
    }, 'credentials that are accepted');
    assert.is(await enter(network, now.db_url), 'in');
    assert.is.not(now.webhook_secret, project.webhook_secret);
    await removed(heir, now);
  });

  test(`the retained data of a project ${how} is returned only to its owner`, async () => {
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
    const again = await until(async () => {
      const { body } = await person.call<ProjectView[]>('GET', '/projects');
      return body.find((each) => each.ref === ref);
    }, 'REST to show the project');
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
  await until(async () => {
    const { status } = await readNotes(platform.network, project, project.anon_key, project.anon_key);
    return status === 200;
  }, 'the table to be served');
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

/** Returns `in`, or the code of the refusal. */
async function enter(network: Network, url: string): Promise<string> {
  const client = new pg.Client(await network.postgres(url));
  client.on('error', () => undefined);
  const outcome = await client.connect().then(
    () => 'in',
    (error: { code?: string }) => error.code ?? 'no answer',
  );
  await client.end().catch(() => undefined);
  return outcome;
}

/** Sends requests until it is finished, and records the rejected ones. */
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
    // The signed-in user has no right to read the table, which is no rejection of the token.
    if (status !== 200 && !text.includes('42501')) this.refusals.push(`${status} ${text}`);
  }

  /** Runs some more rounds after the operation is complete. */
  finish(): Promise<void> {
    this.#wanted = this.#rounds + REQUESTS_AFTER;
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
