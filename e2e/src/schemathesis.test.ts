/**
 * Schemathesis against the real platform: all that `/openapi.json` says must hold for made-up requests, right and wrong ones, alone and
 * in sequences. `SCHEMATHESIS_SECONDS` sets how long (60), `SEED` repeats a run. Needs python3 with venv.
 */
import { execFile, spawn } from 'node:child_process';
import { randomInt, randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startPlatform } from './platform.js';

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

/** A user token: schemathesis revokes every personal access token that it sees. */
async function userToken(url: string): Promise<string> {
  const response = await fetch(`${url}/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email: `${randomUUID()}@example.com`, password: randomUUID() }),
  });
  return ((await response.json()) as { token: string }).token;
}

function attack(
  program: string,
  url: string,
  cwd: string,
  token: string,
): Promise<{ code: number | null; output: string }> {
  const flags = [
    '--max-time',
    seconds,
    '--seed',
    seed,
    '--no-color',
    '--continue-on-failure',
    '--request-timeout',
    '60',
  ];
  const config = ['--config-file', path.join(FOLDER, 'schemathesis.toml')];
  const child = spawn(program, [...config, 'run', `${url}/openapi.json`, ...flags], {
    cwd,
    env: { PATH: process.env.PATH, SLIPWAY_TOKEN: token },
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
    const platform = await startPlatform();
    try {
      const { code, output } = await attack(installed.program, platform.url, cwd, await userToken(platform.url));
      assert.is(code, 0, output);
      const linked = Number(/API Links:\s+(\d+) covered/.exec(output)?.[1] ?? 0);
      assert.ok(linked > 0, `no link of the document was followed:\n${output}`);
    } finally {
      await platform.remove();
      await rm(cwd, { recursive: true, force: true });
    }
  });
}

test.run();
