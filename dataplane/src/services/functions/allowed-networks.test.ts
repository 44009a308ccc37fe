/**
 * Tests a function's connections to a network that the installation allows, and to a server whose certificate is issued
 * by an authority of the installation. The server is at an address of this machine, in place of another machine: in
 * these tests, functions may reach the machine's own addresses.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import path from 'node:path';
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { NOT_PUBLIC, within } from '@slipway/program';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestFunctions } from './testing.js';

const [address] = Object.values(networkInterfaces())
  .flatMap((addresses = []) => addresses)
  .filter(({ family, internal }) => family === 'IPv4' && !internal)
  .map((each) => each.address)
  .filter(within(NOT_PUBLIC));

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-allowed-'));
const authorities = path.join(folder, 'authorities.pem');
let server: Server;

test.before(async () => {
  const pem = await selfSigned(address ?? '');
  writeFileSync(authorities, pem.slice(pem.indexOf('-----BEGIN CERTIFICATE-----')));
  server = createServer({ key: pem, cert: pem }, (_, outgoing) => outgoing.end('reached'));
  await once(server.listen(0, address), 'listening');
});
test.after(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true });
});

type Options = Parameters<typeof startTestFunctions>[2];

/** Returns the response of the server to a function, or the name of the error. */
async function reachedBy(options: Options): Promise<string> {
  const functions = await startTestFunctions({}, undefined, options);
  try {
    const url = `https://${address}:${(server.address() as AddressInfo).port}/`;
    const code = `Deno.serve(async () => {
      try { return new Response(await (await fetch('${url}')).text()); }
      catch (error) { return new Response(error.name + ': ' + error.message); }
    });`;
    assert.equal(await functions.deploy('office', 'caller', code), { state: 'ready' });
    return await (await fetch(`${functions.url('office')}/caller`)).text();
  } finally {
    await functions.close();
  }
}

if (address === undefined) console.log('# skipped: this machine has no private IPv4 address');
else {
  const allowedNetworks = [`${address}/32`];
  const ownAddresses = () => [];

  test('a function reaches an allowed network, and trusts the authorities of the installation', async () => {
    assert.is(await reachedBy({ allowedNetworks, authorities, ownAddresses }), 'reached');
  });

  test('a function does not trust a server without its authority', async () => {
    assert.match(await reachedBy({ allowedNetworks, ownAddresses }), /^TypeError/);
  });

  test('a function is denied a network that is not allowed', async () => {
    assert.match(await reachedBy({ authorities, ownAddresses }), /^NotCapable/);
  });

  test('a function is denied the addresses of this machine, even in an allowed network', async () => {
    assert.match(await reachedBy({ allowedNetworks, authorities }), /^NotCapable/);
  });
}

test.run();
