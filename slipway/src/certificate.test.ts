import { readFileSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type ServerCertificate, serverCertificate } from './certificate.js';

let folder: string;

test.before.each(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
});

test.after.each(() => rm(folder, { recursive: true }));

test('a client that trusts only the certificate authority can connect by each name, and by no other', async () => {
  const certificate = await serverCertificate(folder, ['localhost', '127.0.0.1']);
  assert.is(await connect(certificate, 'localhost'), 'OK');
  assert.is(await connect(certificate, undefined), 'OK');
  assert.is(await connect(certificate, 'elsewhere.example'), 'ERR_TLS_CERT_ALTNAME_INVALID');
  const other = await mkdtemp(path.join(folder, 'other-'));
  const stranger = await serverCertificate(other, ['localhost']);
  assert.is.not(await connect({ ...certificate, authority: stranger.authority }, 'localhost'), 'OK');
});

test('the certificate is renewed only when a name is missing or a file is damaged', async () => {
  const first = await serverCertificate(folder, ['localhost']);
  const issued = readFileSync(first.certificateFile, 'utf8');
  await serverCertificate(folder, ['localhost']);
  assert.is(readFileSync(first.certificateFile, 'utf8'), issued);
  const wider = await serverCertificate(folder, ['localhost', '192.0.2.7']);
  assert.is.not(readFileSync(first.certificateFile, 'utf8'), issued);
  assert.is(wider.authority, first.authority);
  await writeFile(first.keyFile, '');
  const repaired = await serverCertificate(folder, ['localhost']);
  assert.is(repaired.authority, first.authority);
  assert.is(await connect(repaired, 'localhost'), 'OK');
});

test('the keys of the certificates can be read only by their owner', async () => {
  await serverCertificate(folder, ['localhost']);
  for (const name of ['ca.key', 'server.key']) {
    assert.is((await stat(path.join(folder, name))).mode & 0o777, 0o600);
  }
});

async function connect({ authority, certificateFile, keyFile }: ServerCertificate, servername: string | undefined) {
  const server = createServer({ cert: readFileSync(certificateFile), key: readFileSync(keyFile) }, (_, response) => {
    response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const name = servername === undefined ? {} : { servername };
  try {
    return await new Promise((resolve) => {
      request({ host: '127.0.0.1', port, ca: authority, agent: false, ...name }, () => resolve('OK'))
        .on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
        .end();
    });
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test.run();
