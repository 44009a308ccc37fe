/** Tests the report of refused hosts in settings of auth, with an operator whose resolver the test replaces. */
import { LABEL_PROJECT, SECRETS } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  change,
  condition,
  create,
  eventsOf,
  get,
  isHealthy,
  putSecret,
  type ReconcilerDeps,
  reaches,
  startTestOperator,
  withOperator,
} from '../operator.testing.js';
import { secretsPath } from '../resources.js';

const lines: { msg: string; ref?: string; settings?: string[] }[] = [];
const asked: string[] = [];
/** A resolver without any response, except for one name. */
const lookup = (name: string): Promise<string[]> => {
  asked.push(name);
  return name === 'intranet.example' ? Promise.resolve(['10.1.2.3']) : new Promise(() => undefined);
};
const log = pino({ base: {} }, { write: (line) => void lines.push(JSON.parse(line)) });
const parts = { log, lookup };

const test = suite<ReconcilerDeps>('refused hosts in settings');
withOperator(test, parts);

const configure = (deps: ReconcilerDeps, ref: string, values: Record<string, string>) =>
  putSecret(deps, ref, SECRETS.auth.name, values, { [LABEL_PROJECT]: ref });
const state = (status: string) => (project: Parameters<typeof condition>[0]) =>
  condition(project, 'AddressesAllowed')?.status === status;
const linesOf = (ref: string) => lines.filter((line) => line.ref === ref && line.msg.startsWith('configured address'));

const PROVIDER = {
  GOTRUE_EXTERNAL_INTRA_ENABLED: 'true',
  GOTRUE_EXTERNAL_INTRA_CLIENT_ID: 'app',
  GOTRUE_EXTERNAL_INTRA_URL: 'https://user:hidden@intranet.example/hidden?key=hidden',
};

test('a project with refused hosts is healthy, and its condition, an Event and the log name them', async (deps) => {
  const ref = await create(deps, 'refused');
  const before = await reaches(deps, ref, isHealthy, 'healthy');
  assert.is(condition(before, 'AddressesAllowed'), undefined, 'no host is set');
  await configure(deps, ref, { GOTRUE_SMTP_HOST: '127.0.0.1', ...PROVIDER });
  const project = await reaches(deps, ref, state('False'), 'the condition');
  assert.is(project.status?.phase, 'healthy');
  const { reason, message = '' } = await until(async () => {
    const refused = condition(await get(deps, ref), 'AddressesAllowed');
    return refused?.message.includes('intranet') ? refused : undefined;
  }, 'the resolved name');
  assert.is(reason, 'AddressRefused');
  assert.is(
    message,
    'Auth does not connect to the hosts of these settings, because their addresses are not public: ' +
      'GOTRUE_SMTP_HOST (127.0.0.1:587), GOTRUE_EXTERNAL_INTRA_URL (intranet.example:443). Set hosts with public ' +
      'addresses, or let an administrator allow their networks in SLIPWAY_ALLOWED_NETWORKS.',
  );
  assert.not.match(JSON.stringify([await get(deps, ref), lines]), /hidden|10\.1\.2\.3/);
  assert.equal(linesOf(ref).at(-1)?.settings, [
    'GOTRUE_SMTP_HOST (127.0.0.1:587)',
    'GOTRUE_EXTERNAL_INTRA_URL (intranet.example:443)',
  ]);
  await until(async () => (await eventsOf(deps, ref)).find((event) => event.reason === 'AddressRefused'), 'the Event');
  await configure(deps, ref, { GOTRUE_SMTP_HOST: '8.8.8.8', GOTRUE_EXTERNAL_INTRA_ENABLED: 'false' });
  await reaches(deps, ref, state('True'), 'a public host');
  assert.is(linesOf(ref).at(-1)?.msg, 'configured addresses allowed');
});

test('after a start with the network allowed, the condition is True', async (deps) => {
  const ref = await create(deps, 'allowed');
  await reaches(deps, ref, isHealthy, 'healthy');
  await configure(deps, ref, { GOTRUE_SMTP_HOST: '127.0.0.1' });
  await reaches(deps, ref, state('False'), 'refused');
  lines.length = 0;
  const restart = async (allowed: string[]) => {
    await deps.operator.close();
    deps.operator = await startTestOperator(deps, { settings: { reach: { allowed } }, parts });
  };
  await restart([]);
  await until(() => linesOf(ref)[0], 'the line after a start without a change');
  assert.equal(linesOf(ref)[0]?.settings, ['GOTRUE_SMTP_HOST (127.0.0.1:587)']);
  lines.length = 0;
  await restart(['127.0.0.0/8']);
  await reaches(deps, ref, state('True'), 'allowed');
  assert.equal(linesOf(ref), []);
  await restart([]);
});

test('a resolver that never responds delays no reconcile; a project without hosts resolves nothing', async (deps) => {
  asked.length = 0;
  const ref = await create(deps, 'dead');
  await reaches(deps, ref, isHealthy, 'healthy');
  assert.equal(asked, []);
  await configure(deps, ref, { GOTRUE_SMTP_HOST: 'dead.example' });
  await until(() => asked.includes('dead.example'), 'the look-up');
  const { metadata } = await change(deps, ref, { plan: 'starter' });
  const project = await reaches(
    deps,
    ref,
    ({ status }) => status?.observedGeneration === metadata.generation && status?.phase === 'healthy',
    'reconciled',
  );
  assert.is(condition(project, 'AddressesAllowed'), undefined, 'the name is not known to be refused');
  await configure(deps, ref, { GOTRUE_SMTP_HOST: '127.0.0.1', ...PROVIDER });
  await reaches(deps, ref, state('False'), 'a literal address, while the other look-up still runs');
  const started = performance.now();
  await reaches(deps, await create(deps, 'beside-dead'), isHealthy, 'healthy');
  assert.ok(performance.now() - started < 5_000);
  await deps.kubernetes.client.delete(`${secretsPath(ref)}/${SECRETS.auth.name}`);
  await reaches(deps, ref, state('True'), 'no host is set');
  assert.not(asked.includes('intranet.example'), 'one look-up at a time');
});

test.run();
