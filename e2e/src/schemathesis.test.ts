/**
 * Schemathesis against the real platform: all that `/openapi.json` says must hold for made-up requests, right and wrong
 * ones, alone and in sequences. `SCHEMATHESIS_SECONDS` sets how long (60), `SEED` repeats a run. Needs python3 with
 * venv.
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
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

const FOLDER = fileURLToPath(new URL('../schemathesis/', import.meta.url));
const VENV = fileURLToPath(new URL('../../node_modules/.cache/schemathesis/', import.meta.url));
const seconds = process.env.SCHEMATHESIS_SECONDS ?? '60';
const seed = process.env.SEED ?? String(randomInt(2 ** 31));
const run = promisify(execFile);

/** Installs what is missing; the program, or why it can not be had. */
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
 * The account that schemathesis uses. Its password is not that of the examples, so that no example ends its sessions.
 */
const ACCOUNT = { email: 'walker@example.com', password: 'another long password' };
/** The account and the table of the document's examples, so that logging in and a query succeed. */
const EXAMPLE_ACCOUNT = ['ada@example.com', 'correct horse battery'] as const;
const TABLE_SQL = 'create table todos (id int, title text)';

interface Populated {
  /** A user token: schemathesis revokes every personal access token that it sees. */
  token: string;
  /** The service_role key of the project. */
  key: string;
  /** Values of schemathesis.toml's names: objects to keep, and objects that may be deleted. */
  ids: Record<string, number | string | undefined>;
}

/** Makes something for each operation to succeed with. */
async function populate(platform: RunningPlatform): Promise<Populated> {
  const person = await Management.register(platform, ACCOUNT.email, ACCOUNT.password);
  const doomedToken = await created<{ id: number }>(person, '/tokens', { name: 'doomed' });
  const doomed = await person.createProject('doomed');
  const given = await person.createProject('given');
  const project = await person.untilHealthy((await person.createProject('walked')).id);
  await person.query(project.id, TABLE_SQL);
  const functions = `/projects/${project.id}/functions`;
  const code = "Deno.serve(() => new Response('hello'));";
  const kept = await created<{ id: number }>(person, functions, { name: 'hello', code });
  const doomedFunction = await created<{ id: number }>(person, functions, { name: 'doomed', code });
  await created(person, `${functions}/${kept.id}/deploy`);
  for (const account of [EXAMPLE_ACCOUNT, ['kept@example.com'], ['doomed@example.com']] as const)
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
    FUNCTION: kept.id,
    DOOMED_FUNCTION: doomedFunction.id,
    DOOMED_TOKEN: doomedToken.id,
    ACCOUNT: accountOf('kept@example.com'),
    DOOMED_ACCOUNT: accountOf('doomed@example.com'),
    DOOMED_SESSION: sessions.find(({ current }) => !current)?.id,
    DOOMED_INVITATION: invitation.id,
  };
  return { token, key: project.service_role_key, ids };
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
  // No engine for dedicated projects is installed.
  'POST /projects/{id}/reprovision',
  // schemathesis reads the document before the run that it reports.
  'GET /openapi.json',
  // The platform of the test sends no mail.
  'POST /auth/password/forgot',
  'POST /auth/password/reset',
  'POST /auth/verification',
  'POST /auth/verify',
  // They need the account's current password.
  'POST /auth/password',
  'POST /auth/email',
  'POST /auth/me/delete',
];

interface ReportEvent {
  ScenarioFinished?: {
    recorder: {
      cases?: Record<string, { value: { method: string; path: string } }>;
      interactions?: Record<string, { response: { status_code: number } | null }>;
    };
  };
}

/** The statuses that each operation of the report was answered with, by `GET /projects/{id}`. */
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

/** By number, and so however slow the machine is, all but sequences: these go on for so long. */
const RUNS = {
  fuzzing: ['--phases', 'examples,fuzzing', '--max-examples', String(Math.ceil(Number(seconds) / 4))],
  coverage: ['--phases', 'coverage'],
  sequences: ['--phases', 'stateful', '--max-time', seconds],
};
/** A run of sequences ends early where the API answers a repeated request in another way than before. */
const SEQUENCE_RUNS = 5;

async function attack(
  program: string,
  url: string,
  cwd: string,
  { token, key, ids }: Populated,
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
    env: { PATH: process.env.PATH, SLIPWAY_TOKEN: token, SLIPWAY_KEY: key },
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
  console.log(`# skipped: schemathesis can not be installed: ${installed.missing}`);
} else {
  test('the API answers whatever schemathesis makes of /openapi.json as documented, and never with a 500', async () => {
    console.log(`# schemathesis: SEED=${seed}, ${seconds} s`);
    const cwd = await mkdtemp(path.join(tmpdir(), 'slipway-schemathesis-'));
    const platform = await startPlatform(undefined, { SLIPWAY_SERVICES_SHARED: 'storage,functions' });
    try {
      const populated = await populate(platform);
      const fuzzing = await attack(installed.program, platform.url, cwd, populated, 'fuzzing');
      assert.is(fuzzing.code, 0, fuzzing.output);
      const statuses = await statusesIn(path.join(cwd, 'fuzzing.ndjson'));
      const unreached = (await operationsOf(platform.url)).flatMap((operation) => {
        const got = [...(statuses.get(operation) ?? [])];
        // 409 is the state of what was found: an account with a project, say, is not deleted.
        const isReached = got.some((status) => status < 300 || status === 409);
        return isReached || NOT_REPORTED.includes(operation) ? [] : [`${operation}: ${got}`];
      });
      assert.equal(unreached, [], 'every operation found what it is for at least once');
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
      await rm(cwd, { recursive: true, force: true });
    }
  });
}

test.run();
