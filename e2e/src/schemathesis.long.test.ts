/**
 * Runs schemathesis against the real platform: `/openapi.json` must be correct for generated requests, valid and
 * invalid ones, alone and in sequences. `SCHEMATHESIS_SECONDS` sets the duration (60), `SEED` repeats a run. Needs
 * python3 with venv.
 */
import { execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { startMailbox } from '@slipway/api/mail/mailbox.testing.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

const FOLDER = fileURLToPath(new URL('../schemathesis/', import.meta.url));
const VENV = fileURLToPath(new URL('../../node_modules/.cache/schemathesis/', import.meta.url));
const seconds = process.env.SCHEMATHESIS_SECONDS ?? '60';
const seed = process.env.SEED ?? String(randomInt(2 ** 31));
const run = promisify(execFile);

/** Installs schemathesis if it is missing. Returns the program, or the reason why it can't be installed. */
async function install(): Promise<{ program: string } | { missing: string }> {
  const requirements = path.join(FOLDER, 'requirements.txt');
  const wanted = await readFile(requirements, 'utf8');
  const done = path.join(VENV, 'installed.txt');
  const program = path.join(VENV, 'bin', 'schemathesis');
  if ((await readFile(done, 'utf8').catch(() => '')) === wanted) return { program };
  try {
    await run('python3', ['-m', 'venv', '--clear', VENV]);
    await run(path.join(VENV, 'bin', 'pip'), ['install', '--quiet', '--no-input', '--no-deps', '-r', requirements]);
    await writeFile(done, wanted);
    return { program };
  } catch (error) {
    const lines = String((error as { stderr?: string }).stderr || (error as Error).message);
    return { missing: lines.trim().split('\n').at(-1) ?? '' };
  }
}

/**
 * The account of schemathesis. Its password differs from those of the examples, so that no example ends its sessions.
 */
const ACCOUNT = { email: 'walker@example.com', password: 'another long password' };
/**
 * Account in the document's examples. It exists, and has the examples' table, so that logging in and a query succeed.
 */
const EXAMPLE_ACCOUNT = ['ada@example.com', 'correct horse battery'] as const;
/** Account for operations on passwords and addresses, which end its sessions. */
const CHANGED_ACCOUNT = ['changed@example.com', 'a long password of its own'] as const;
/** Account for mailed links, because a new password invalidates all links of its account. */
const VERIFIED_ACCOUNT = ['verified@example.com', 'a long password to verify'] as const;
const RESET_ACCOUNT = ['forgetful@example.com', 'a long password to forget'] as const;
const TABLE_SQL = 'create table todos (id int, title text)';

interface Populated {
  /** A user token, because schemathesis revokes every personal access token that it finds. */
  token: string;
  /** A user token of the account whose password and address are changed. */
  passwordToken: string;
  /** The service_role key of the project. */
  key: string;
  /** Values for the names in schemathesis.toml: objects to keep, and objects that may be deleted. */
  ids: Record<string, number | string | undefined>;
}

/** Makes objects, so that each operation can succeed. */
async function populate(platform: RunningPlatform, mailbox: Mailbox): Promise<Populated> {
  const person = await Management.register(platform, ACCOUNT.email, ACCOUNT.password);
  const doomedToken = await created<{ id: number }>(person, '/tokens', { name: 'doomed' });
  const doomed = await person.createProject('doomed');
  const given = await person.createProject('given');
  const turned = await person.createProject('turned');
  const project = await person.untilHealthy((await person.createProject('walked')).id);
  await person.query(project.id, TABLE_SQL);
  const functions = `/projects/${project.id}/functions`;
  const code = "Deno.serve(() => new Response('hello'));";
  const kept = await created<{ id: number }>(person, functions, { name: 'hello', code });
  const doomedFunction = await created<{ id: number }>(person, functions, { name: 'doomed', code });
  await created(person, `${functions}/${kept.id}/deploy`);
  const webhook = { url: 'https://hooks.example.com/', events: ['project.failing'] };
  const keptWebhook = await created<{ id: number }>(person, `/projects/${project.id}/webhooks`, webhook);
  const doomedWebhook = await created<{ id: number }>(person, `/projects/${project.id}/webhooks`, webhook);
  for (const account of [
    EXAMPLE_ACCOUNT,
    VERIFIED_ACCOUNT,
    RESET_ACCOUNT,
    ['kept@example.com'],
    ['doomed@example.com'],
  ] as const)
    await Management.register(platform, ...account);
  await created(person, '/auth/login', ACCOUNT);
  const { token } = await created<{ token: string }>(person, '/auth/login', ACCOUNT);
  const administrator = Management.withToken(platform, ACCOUNT.email, token);
  const invitation = await created<{ id: number }>(administrator, '/admin/invitations', {});
  const { body: accounts } = await administrator.call<Listed[]>('GET', '/admin/accounts');
  const { body: sessions } = await administrator.call<Listed[]>('GET', '/auth/sessions');
  const accountOf = (email: string) => accounts.find((account) => account.email === email)?.id;
  const ids = {
    PROJECT: project.id,
    DOOMED_PROJECT: doomed.id,
    GIVEN_REF: given.ref,
    TURNED_PROJECT: turned.id,
    WEBHOOK: keptWebhook.id,
    DOOMED_WEBHOOK: doomedWebhook.id,
    FUNCTION: kept.id,
    DOOMED_FUNCTION: doomedFunction.id,
    DOOMED_TOKEN: doomedToken.id,
    ACCOUNT: accountOf('kept@example.com'),
    DOOMED_ACCOUNT: accountOf('doomed@example.com'),
    DOOMED_SESSION: sessions.find(({ current }) => !current)?.id,
    DOOMED_INVITATION: invitation.id,
    PASSWORD: CHANGED_ACCOUNT[1],
    ...(await mailedLinks(administrator, mailbox)),
  };
  return { token, passwordToken: await changedAccount(platform), key: project.service_role_key, ids };
}

type Mailbox = Awaited<ReturnType<typeof startMailbox>>;

/** Returns tokens of mailed links, each for one use, and the password for one of them. */
async function mailedLinks(person: Management, mailbox: Mailbox) {
  const [verified, password] = VERIFIED_ACCOUNT;
  const { token: verify } = await mailbox.next(verified, 'Verify your e-mail address');
  const [email] = RESET_ACCOUNT;
  await created(person, '/auth/password/forgot', { email });
  const { token: reset } = await mailbox.next(email, 'Set a new password');
  return { VERIFY_TOKEN: verify, VERIFY_PASSWORD: password, RESET_TOKEN: reset };
}

/** Returns a user token. Its account owns a project, so that the account can't be deleted. */
async function changedAccount(platform: RunningPlatform): Promise<string> {
  const [email, password] = CHANGED_ACCOUNT;
  const person = await Management.register(platform, email, password);
  await person.createProject('held');
  return (await created<{ token: string }>(person, '/auth/login', { email, password })).token;
}

interface Listed {
  id: number;
  email?: string;
  current?: boolean;
}

async function created<T>(person: Management, path: string, body?: unknown): Promise<T> {
  const answer = await person.call<T>('POST', path, body);
  assert.ok(answer.status < 300, `${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
}

/** Operations that can't succeed in this run. */
const NOT_REPORTED = [
  // No installation has machines for dedicated projects.
  'POST /projects/{id}/reprovision',
  'GET /projects/{id}/services',
  'POST /projects/{id}/services/{service}/restart',
  'GET /projects/{id}/services/{service}/logs',
  'GET /projects/{id}/snapshots',
  'POST /projects/{id}/snapshots',
  'DELETE /projects/{id}/snapshots/{name}',
  'POST /projects/{id}/snapshots/{name}/restore',
  'POST /projects/{id}/resize',
  // No project is of the type frontend, so none has a build.
  'POST /projects/{id}/deploy',
  'POST /projects/{id}/frontend/deploy',
  'POST /projects/{id}/deploy-key',
  'DELETE /projects/{id}/build-cache',
  'DELETE /projects/{id}/previews',
  'GET /projects/{id}/builds/{buildId}',
  'GET /projects/{id}/builds/{buildId}/logs',
  'POST /projects/{id}/builds/{buildId}/cancel',
  'POST /projects/{id}/builds/{buildId}/redeploy',
  'POST /projects/{id}/builds/{buildId}/rollback',
  'POST /builds/{ref}/{build}/credentials',
  // No installation has apps.
  'POST /projects/{id}/compute/deploy',
  'POST /projects/{id}/compute/webhook',
  'POST /projects/{id}/compute/rollback',
  'POST /projects/{id}/compute/restart',
  'GET /projects/{id}/compute/logs',
  // The project has no mail server, and no site with a form.
  'POST /projects/{id}/config/auth/test-mail',
  'PATCH /projects/{id}/forms/{name}',
  'DELETE /projects/{id}/forms/{name}',
  'GET /projects/{id}/forms/{name}/entries',
  'GET /projects/{id}/forms/{name}/entries.csv',
  'DELETE /projects/{id}/forms/{name}/entries/{entry_id}',
  // schemathesis reads the document before the reported run.
  'GET /openapi.json',
];

interface ReportEvent {
  ScenarioFinished?: {
    recorder: {
      cases?: Record<string, { value: { method: string; path: string } }>;
      interactions?: Record<string, { response: { status_code: number } | null }>;
    };
  };
}

/** Returns the response statuses of each operation in the report, by a name such as `GET /projects/{id}`. */
async function statusesIn(report: string): Promise<Map<string, Set<number>>> {
  const found = new Map<string, Set<number>>();
  for await (const line of createInterface({ input: createReadStream(report) })) {
    const { cases = {}, interactions = {} } = (JSON.parse(line) as ReportEvent).ScenarioFinished?.recorder ?? {};
    for (const [id, { response }] of Object.entries(interactions)) {
      const { method, path: route } = cases[id]?.value ?? { method: '', path: '' };
      const operation = `${method} ${route}`;
      if (response) found.set(operation, (found.get(operation) ?? new Set()).add(response.status_code));
    }
  }
  return found;
}

async function operationsOf(url: string): Promise<string[]> {
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, object> };
  return Object.entries(paths).flatMap(([route, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${route}`),
  );
}

/**
 * Options for runs of examples. Examples are limited by number, so that a slow machine runs as many. Sequences are
 * limited by time.
 */
const EXAMPLES = ['--max-examples', String(Math.ceil(Number(seconds) / 4))];
/** Matches operations that end sessions, which would invalidate the token of another run. */
const PASSWORDS = '^/auth/(password|email|me/delete|verif)';
/**
 * Matches operations on links, which run before the others. A link works once. Generated ids may disable or delete its
 * account. Other operations use up the attempts that one network has.
 */
const LINKS = '^/auth/(password/reset|verif)';
/** Options for a run with few examples, after which some of a network's attempts remain. */
const FEW_EXAMPLES = ['--max-examples', '15'];
const RUNS = {
  fuzzing: ['--phases', 'examples,fuzzing', ...EXAMPLES, '--exclude-path-regex', PASSWORDS],
  links: ['--phases', 'examples,fuzzing', ...FEW_EXAMPLES, '--include-path-regex', LINKS],
  passwords: [
    ...['--phases', 'examples,fuzzing', ...FEW_EXAMPLES],
    ...['--include-path-regex', PASSWORDS, '--exclude-path-regex', LINKS],
  ],
  coverage: ['--phases', 'coverage', '--exclude-path-regex', PASSWORDS],
  sequences: ['--phases', 'stateful', '--max-time', seconds, '--exclude-path-regex', PASSWORDS],
};
/** Maximum runs of sequences. A run ends early if the API's response to a repeated request differs. */
const SEQUENCE_RUNS = 5;

async function attack(
  program: string,
  url: string,
  cwd: string,
  { token, passwordToken, key, ids }: Populated,
  name: keyof typeof RUNS,
  ownSeed = seed,
): Promise<{ code: number | null; output: string }> {
  const flags = [
    ...RUNS[name],
    '--seed',
    ownSeed,
    '--no-color',
    '--continue-on-failure',
    '--request-timeout',
    '60',
    '--report-ndjson-path',
    path.join(cwd, `${name}.ndjson`),
  ];
  const config = path.join(cwd, 'schemathesis.toml');
  const template = await readFile(path.join(FOLDER, 'schemathesis.toml'), 'utf8');
  const written = template.replaceAll(/\$\{([A-Z_]+)\}/g, (name, id) => String(ids[id] ?? name));
  await writeFile(config, written);
  const child = spawn(program, ['--config-file', config, 'run', `${url}/openapi.json`, ...flags], {
    cwd,
    env: {
      PATH: process.env.PATH,
      SLIPWAY_TOKEN: name === 'links' || name === 'passwords' ? passwordToken : token,
      SLIPWAY_KEY: key,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output = (output + chunk).slice(-60_000);
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}

const installed = await install();
if ('missing' in installed) {
  console.log(`# skipped: schemathesis cannot be installed: ${installed.missing}`);
} else {
  test('the API responds as documented to requests generated from /openapi.json, and never with 500', async () => {
    console.log(`# schemathesis: SEED=${seed}, ${seconds} s`);
    const cwd = await mkdtemp(path.join(tmpdir(), 'slipway-schemathesis-'));
    const mailbox = await startMailbox();
    const smtpUrl = path.join(cwd, 'smtp-url');
    await writeFile(smtpUrl, mailbox.settings.url);
    const platform = await startPlatform(undefined, {
      SLIPWAY_SERVICES_SHARED: 'storage,functions',
      SLIPWAY_SMTP_URL: smtpUrl,
      SLIPWAY_SMTP_FROM: mailbox.settings.from,
    });
    try {
      const populated = await populate(platform, mailbox);
      const statuses = new Map<string, Set<number>>();
      for (const name of ['links', 'fuzzing', 'passwords'] as const) {
        const { code, output } = await attack(installed.program, platform.url, cwd, populated, name);
        assert.is(code, 0, output);
        for (const [operation, got] of await statusesIn(path.join(cwd, `${name}.ndjson`))) statuses.set(operation, got);
      }
      const unreached = (await operationsOf(platform.url)).flatMap((operation) => {
        const got = [...(statuses.get(operation) ?? [])];
        // 409 is a valid state of the object: for example, an account with a project can't be deleted.
        const isReached = got.some((status) => status < 300 || status === 409);
        return isReached || NOT_REPORTED.includes(operation) ? [] : [`${operation}: ${got}`];
      });
      assert.equal(unreached, [], 'every operation reached its object at least once');
      const coverage = await attack(installed.program, platform.url, cwd, populated, 'coverage');
      assert.is(coverage.code, 0, coverage.output);
      let linked = 0;
      for (let n = 0; n < SEQUENCE_RUNS && linked === 0; n++) {
        const ownSeed = String(Number(seed) + n);
        const { code, output } = await attack(installed.program, platform.url, cwd, populated, 'sequences', ownSeed);
        assert.is(code, 0, output);
        linked = Number(/API Links:\s+(\d+) covered/.exec(output)?.[1] ?? 0);
        console.log(`\n# sequences: ${linked} links of the document were followed`);
      }
      assert.ok(linked > 0, 'a link of the document is followed');
    } finally {
      await platform.remove();
      await mailbox.close();
      await rm(cwd, { recursive: true, force: true });
    }
  });
}

test.run();
