import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TransientError } from '../runtime/transient-error.js';
import { FunctionControl } from './function-control.js';

const FUNCTION = { ref: 'shop', name: 'hello', version: 1, code: 'x', verifyJwt: true };
const SILENT = { state: 'busy', message: 'the data plane does not answer' };

let folder: string;
let socketPath: string;

test.before.each(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  socketPath = path.join(folder, 'functions.sock');
});
test.after.each(() => rm(folder, { recursive: true, force: true }));

async function dataPlane(): Promise<Server> {
  const server = createServer((_, response) => response.end('{"state":"ready"}'));
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  return server;
}

const closed = (server: Server) =>
  new Promise((resolve) => {
    server.close(resolve);
    server.closeAllConnections();
  });

const outcomeOf = (control: FunctionControl) => control.ensure(FUNCTION).catch((error: unknown) => error);

test('a missing response of the data plane is a transient failure while the data plane may be starting', async () => {
  const control = new FunctionControl({ socketPath });
  assert.instance(await outcomeOf(control), TransientError);
  await control.close();
});

test('a missing response of the data plane is reported once a start would be over', async () => {
  const control = new FunctionControl({ socketPath }, 0);
  assert.equal(await outcomeOf(control), SILENT);
  await control.close();
});

test('a data plane that stops responding is reported at once', async () => {
  const server = await dataPlane();
  const control = new FunctionControl({ socketPath });
  assert.equal(await outcomeOf(control), { state: 'ready' });
  await closed(server);
  assert.equal(await outcomeOf(control), SILENT);
  await control.close();
});

test.run();
