/** Tests requests to the Kubernetes API, whose objects tenants fill. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { serverCertificate } from './certificate.js';
import { countProjectsWithFunctions } from './cluster.js';

async function countAt(respond: RequestListener): Promise<number> {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  const { authority, certificateFile, keyFile } = await serverCertificate(folder, ['127.0.0.1']);
  const server = createServer({ cert: readFileSync(certificateFile), key: readFileSync(keyFile) }, respond);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    return await countProjectsWithFunctions({ url, authority, token: 'token' });
  } finally {
    server.closeAllConnections();
    server.close();
    await rm(folder, { recursive: true });
  }
}

test('functions are counted by their metadata, without their code', async () => {
  const items = ['a', 'b', 'a'].map((namespace) => ({ metadata: { namespace } }));
  const count = await countAt((request, response) => {
    const isMetadata = request.headers.accept?.includes('as=PartialObjectMetadataList');
    response.end(JSON.stringify({ metadata: {}, items: isMetadata ? items : [] }));
  });
  assert.is(count, 2);
});

test('a response of more than 16 MiB is rejected', async () => {
  const error = await countAt((_, response) => {
    response.end(JSON.stringify({ metadata: {}, items: [], more: 'x'.repeat(16 * 1024 * 1024) }));
  }).catch((cause: Error) => cause);
  assert.instance(error, Error);
  assert.match((error as Error).message, /larger than 16777216 bytes/);
});

test.run();
