/** Tests registration on a machine that only loopback reaches, and on one that the network reaches. */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { newPlace, type PlatformPlace, type RunningPlatform, startPlatform, temporaryFolder } from './platform.js';

const run = promisify(execFile);
const ELSEWHERE = { SLIPWAY_HOST: '0.0.0.0' };

async function register({ url }: RunningPlatform, email: string, code?: string) {
  const response = await fetch(`${url}/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ email, password: 'a long password', ...(code ? { code } : {}) }),
  });
  const body = (await response.json()) as { code?: string; user?: { administrator: boolean } };
  return { status: response.status, code: body.code, administrator: body.user?.administrator };
}

const admin = ({ home, port }: PlatformPlace, ...words: string[]) =>
  run(process.execPath, [fileURLToPath(new URL('../../slipway/dist/main.js', import.meta.url)), 'admin', ...words], {
    env: { PATH: process.env.PATH, TMPDIR: temporaryFolder(home), SLIPWAY_HOME: home, SLIPWAY_PORT: String(port) },
  });

const printedCode = ({ output }: RunningPlatform) => /setup code[\s\S]*?\n {2}([\w-]{40,})\n/.exec(output())?.[1];

test('a platform on the network registers an account only with the printed setup code', async () => {
  const place = await newPlace();
  let platform = await startPlatform(place, ELSEWHERE);
  try {
    assert.equal(await register(platform, 'stranger@example.com'), {
      status: 403,
      code: 'registration_refused',
      administrator: undefined,
    });
    const code = printedCode(platform);
    assert.ok(code, platform.output());
    assert.equal(await register(platform, 'ann@example.com', code), {
      status: 201,
      code: undefined,
      administrator: true,
    });
    assert.is((await register(platform, 'second@example.com', code)).status, 403);
    await platform.stop();
    platform = await startPlatform(place, ELSEWHERE);
    assert.is(printedCode(platform), undefined);
  } finally {
    await platform.remove();
  }
});

test('a loopback platform registers without a code, and an admin command appoints an administrator', async () => {
  const place = await newPlace();
  const platform = await startPlatform(place);
  try {
    assert.is(printedCode(platform), undefined);
    assert.equal(await register(platform, 'first@example.com'), { status: 201, code: undefined, administrator: true });
    assert.is((await register(platform, 'second@example.com')).administrator, false);
    await admin(place, 'appoint', 'Second@example.com');
    const { stdout } = await admin(place, 'accounts');
    assert.match(stdout, /first@example\.com\tadministrator\n.*second@example\.com\tadministrator/);
    const unknown = await admin(place, 'appoint', 'nobody@example.com').catch((error) => error);
    assert.equal([unknown.code, /no account has the address/.test(unknown.stderr)], [1, true]);
    await platform.stop();
    const stopped = await admin(place, 'accounts').catch((error) => error);
    assert.match(stopped.stderr, `nothing runs over ${path.resolve(place.home)}`);
  } finally {
    await platform.remove();
  }
});

test.run();
