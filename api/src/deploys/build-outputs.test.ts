/** Tests outputs of builds in a store of sites on another machine, as on a cluster. */
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { API_VERSION } from '@slipway/crds';
import { HOSTING_STORE_PORT, namespaceOf } from '@slipway/installation';
import { endRequests, listen } from '@slipway/program';
import { BuildLogs, contentStoreServer, Sites } from '@slipway/sites';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { buildsPath, type Deploys, type Site, startDeploys } from './testing.js';

/**
 * Loopback address of the store. No other test uses this address, because the port of a store is the same everywhere.
 */
const HOST = `127.77.${process.pid % 250}.7`;
const TOKEN = 'the token of the store, of at least 32 characters';
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-store-'));
const logs = new BuildLogs(path.join(folder, 'logs'));
let deploys: Deploys;
let store: Server | undefined;

test.before(async () => {
  deploys = await startDeploys({ hostingPods: { urls: [`http://${HOST}:8080`], token: () => TOKEN } });
});
test.after(async () => {
  await deploys.api.close();
  if (store) await endRequests(store);
  rmSync(folder, { recursive: true, force: true });
});

async function failed(): Promise<Site> {
  const { api, owner } = deploys;
  const site = await deploys.makeSite();
  await api.call('POST', `/projects/${site.id}/deploy`, { token: owner.token });
  await api.operator.client.patch(`${buildsPath(site.ref)}/build-1/status`, { status: { phase: 'Failed' } });
  return site;
}

const ask = ({ id }: Site, route: string) =>
  deploys.api.call('GET', `/projects/${id}/${route}`, { token: deploys.owner.token });

test('an output is returned whole if the store responds, and otherwise there is a 503 with Retry-After', async () => {
  const site = await failed();
  const away = await ask(site, 'build-logs');
  assert.equal([away.status, away.body.code], [503, 'unavailable']);
  const sites = new Sites(path.join(folder, 'sites'));
  const onError = (error: unknown) => assert.unreachable(String(error));
  store = await contentStoreServer({ sites, logs, token: () => TOKEN, onError });
  await listen(store, `${HOST}:${HOSTING_STORE_PORT}`);
  const writer = await logs.write(site.ref, 'build-1', 1_000_000);
  writer.append('Cloning', 'commit abc\n');
  writer.append('Building', 'x'.repeat(200_000));
  await writer.end();
  const shown = await ask(site, 'build-logs');
  assert.is(shown.status, 200);
  assert.is(shown.body.raw, `commit abc\n${'x'.repeat(200_000)}`);
  assert.equal(
    shown.body.sections.map(({ section }: { section: string }) => section),
    ['Cloning', 'Building'],
  );
});

test('a Build that names another project shows nothing of that project’s output', async () => {
  const victim = await failed();
  const secret = await logs.write(victim.ref, 'build-1', 1_000);
  secret.append('Building', 'output of the victim\n');
  await secret.end();
  const own = await deploys.makeSite();
  const metadata = { name: 'build-1', namespace: namespaceOf(own.ref) };
  const spec = { project: victim.ref, trigger: 'kubectl' };
  const made = { apiVersion: API_VERSION, kind: 'Build', metadata, spec };
  await deploys.api.operator.client.create<object>(buildsPath(own.ref), made);
  for (const accept of ['text/plain', 'text/event-stream']) {
    const { token } = deploys.owner;
    const shown = await deploys.api.call('GET', `/projects/${own.id}/builds/1/logs`, { token, headers: { accept } });
    assert.is(shown.status, 200);
    assert.not.match(JSON.stringify(shown.body), 'victim');
    const status = { phase: 'Failed' };
    await deploys.api.operator.client.patch(`${buildsPath(own.ref)}/build-1/status`, { status });
  }
});

test.run();
