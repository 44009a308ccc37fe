/**
 * Tests logs for owners on a real cluster: lines of gateways, of auth's own pods and of Postgres, for projects whose
 * services and databases are in each place.
 */
import { type Plan } from '@slipway/crds';
import { LABEL_PART, LOGS_SECRET, namespaceOf, PART_AUTH, PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { kubectl } from './kubectl.js';
import { Management, type ProjectView } from './management.js';

/** On the test cluster, the first has no pods of its own, and the last has its own Postgres. */
const PLANS: Plan[] = ['free', 'starter', 'pro'];
/** No host has this name: https://www.rfc-editor.org/rfc/rfc6761#section-6.4. */
const MAIL_HOST = 'mail.invalid';
const PATIENCE_MS = 120_000;

/** Program for a pod of the API: sends a request with a wrong key to each gateway, and prints the requests’ ids. */
const REJECTED = `
  const { get } = require('node:http');
  const [host, ...gateways] = process.argv.slice(1);
  const send = (gateway) => new Promise((resolve, reject) => {
    const headers = { host, apikey: 'wrong' };
    get({ host: gateway, port: 8080, path: '/rest/v1/todos', headers }, (response) => {
      console.log(response.headers['x-request-id']);
      response.resume().on('end', resolve);
    }).on('error', reject);
  });
  (async () => {
    for (const gateway of gateways) await send(gateway);
  })();`;

interface Line {
  time: string;
  level: string;
  message: string;
  [fact: string]: string | number;
}

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  let person: Management;
  const projects = new Map<Plan, ProjectView>();
  const run = (...args: string[]) => kubectl(cluster.kubeconfig, args);
  const inSystem = (...args: string[]) => run('-n', SYSTEM_NAMESPACE, ...args);
  const projectOf = (plan: Plan) => projects.get(plan) as ProjectView;

  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
    person = await Management.register(platform);
    for (const plan of PLANS) {
      const { id } = await person.createProject(`logs-${plan}`, plan);
      projects.set(plan, await person.untilHealthy(id));
    }
  });
  test.after(async () => {
    const ids = [...projects.values()].map(({ id }) => id);
    await Promise.all(ids.map((id) => person?.call('DELETE', `/projects/${id}`)));
    await Promise.all(ids.map((id) => person?.untilGone(id)));
    await platform?.close();
  });

  async function linesOf({ id }: ProjectView, service: string, query = 'limit=1000'): Promise<Line[]> {
    const { status, body } = await person.call<{ items: Line[] }>('GET', `/projects/${id}/logs/${service}?${query}`);
    assert.is(status, 200, JSON.stringify(body));
    return body.items;
  }
  const untilLine = (project: ProjectView, service: string, isIt: (line: Line) => boolean) =>
    until(
      async () => (await linesOf(project, service)).find(isIt),
      `a line of ${service} of ${project.name}`,
      PATIENCE_MS,
    );
  const request = ({ project_url, anon_key }: ProjectView, path: string, more: RequestInit = {}) =>
    platform.network.fetch(`${project_url}${path}`, { ...more, headers: { apikey: anon_key, ...more.headers } });

  for (const plan of PLANS) {
    test(`a mail that was not sent is in the log of auth of a project of the plan ${plan}`, async () => {
      const project = projectOf(plan);
      const settings = { smtp_host: MAIL_HOST, smtp_port: 587, smtp_admin_email: 'shop@example.com' };
      const { status } = await person.call('PATCH', `/projects/${project.id}/config/auth`, settings);
      assert.is(status, 200);
      await until(
        async () => {
          const body = JSON.stringify({ email: 'ann@example.com' });
          await request(project, '/auth/v1/otp', {
            method: 'POST',
            body,
            headers: { 'content-type': 'application/json' },
          });
          return (await linesOf(project, 'auth')).some(({ message }) => message === 'mail not sent');
        },
        'the mail that was not sent',
        PATIENCE_MS,
      );
      const [line] = await linesOf(project, 'auth', 'level=error&limit=1');
      assert.is(line?.level, 'error');
      assert.ok(!JSON.stringify(await linesOf(project, 'auth')).includes('127.0.0.1'));
    });

    test(`an error of the database is in the log of Postgres of a project of the plan ${plan}`, async () => {
      const project = projectOf(plan);
      const { id } = project;
      const sql = `select 'canary' from missing_in_${plan}`;
      assert.is((await person.call('POST', `/projects/${id}/query`, { sql })).status, 400);
      const line = await untilLine(project, 'postgres', ({ message }) => message.includes(`missing_in_${plan}`));
      assert.equal(
        [line.level, line.code, line.message],
        ['error', '42P01', `relation "missing_in_${plan}" does not exist`],
      );
      assert.match(String(line.role), /^(postgres|query)\./);
      await person.query(id, `do $$ begin raise warning 'one\ntwo'; end $$`);
      await untilLine(project, 'postgres', ({ message }) => message === 'one\ntwo');
      assert.ok(!JSON.stringify(await linesOf(project, 'postgres')).includes('canary'));
    });
  }

  test('the log of a project has no lines of others', async () => {
    for (const plan of PLANS) {
      const text = JSON.stringify(await linesOf(projectOf(plan), 'postgres'));
      for (const other of PLANS) assert.is(text.includes(`missing_in_${other}`), other === plan, `${other} in ${plan}`);
    }
    const stranger = await Management.register(platform);
    for (const service of ['auth', 'postgres']) {
      assert.is((await stranger.call('GET', `/projects/${projectOf('pro').id}/logs/${service}`)).status, 404);
    }
  });

  test('the lines of all gateways are in one log, and the others remain when one gateway is gone', async () => {
    const project = projectOf('free');
    const ofGateways = ['-l', `app.kubernetes.io/name=${PROGRAMS.dataplane}`, '--field-selector=status.phase=Running'];
    const columns = 'jsonpath={range .items[*]}{.metadata.name} {.status.podIP}{"\\n"}{end}';
    const gateways = (await inSystem('get', 'pods', ...ofGateways, '-o', columns))
      .trim()
      .split('\n')
      .map((row) => row.split(' '));
    assert.ok(gateways.length > 1, String(gateways));
    const ids = await inSystem(
      ...['exec', `deployment/${PROGRAMS.api}`, '--', 'node', '-e', REJECTED, new URL(project.project_url).host],
      ...gateways.map(([, address]) => address as string),
    ).then((text) => text.trim().split('\n'));
    assert.is(ids.length, gateways.length);
    const found = async () => {
      const lines = await linesOf(project, 'rest');
      return ids.filter((id) => lines.some(({ request_id }) => request_id === id));
    };
    assert.equal(await found(), ids);
    await inSystem('delete', 'pod', gateways[0]?.[0] as string, '--grace-period=1', '--wait=false');
    for (let look = 0; look < 10; look += 1) assert.ok((await found()).includes(ids[1] as string));
  });

  test('nobody without the token reads logs at a gateway, and no pod of a project has the token', async () => {
    const secret = await inSystem('get', 'secret', LOGS_SECRET.name, '-o', 'jsonpath={.data.token}');
    const token = Buffer.from(secret, 'base64').toString();
    assert.ok(token.length >= 32);
    const namespace = namespaceOf(projectOf('starter').ref);
    const pods = await run('-n', namespace, 'get', 'pods', '-l', `${LABEL_PART}=${PART_AUTH}`, '-o', 'json');
    assert.ok(!pods.includes(LOGS_SECRET.name));
  });
}

test.run();
