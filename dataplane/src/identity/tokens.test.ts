import { SignJWT } from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { Tokens } from './tokens.js';

test('cached tokens are evicted beyond a limit in bytes, the least recently used first', async () => {
  const tenant = tenantWithoutDatabase('shop', await signedKeys());
  const secret = new TextEncoder().encode(tenant.jwtSecret);
  const sign = (sub: string, more = '') =>
    new SignJWT({ role: 'authenticated', sub, more }).setProtectedHeader({ alg: 'HS256' }).sign(secret);
  const tokens = new Tokens(100_000);
  const known = async (token: string) => tokens.remembered(tenant, token) !== undefined;
  const used = await sign('used');
  const unused = await sign('unused');
  await tokens.verify(tenant, used);
  await tokens.verify(tenant, unused);
  const small = await Promise.all(Array.from({ length: 20 }, (_, at) => sign(`user-${at}`)));
  for (const token of small) await tokens.verify(tenant, token);
  for (const token of [used, unused, ...small]) assert.ok(await known(token));
  const large = await Promise.all(Array.from({ length: 20 }, (_, at) => sign(`user-${at}`, 'x'.repeat(10_000))));
  for (const token of large) {
    await tokens.verify(tenant, token);
    assert.ok(await known(used));
  }
  assert.not(await known(unused));
  const cached = await Promise.all(large.map(known));
  assert.ok(cached.filter(Boolean).length <= 4, String(cached));
});

test.run();
