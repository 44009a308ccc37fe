import { EventEmitter } from 'node:events';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { ServiceRequest } from '../service.js';
import { ImageTurns } from './image-turns.js';

class Client extends EventEmitter {
  destroyed = false;
  leave(): void {
    this.destroyed = true;
    this.emit('close');
  }
}

/** Transformations that end when the test says so. */
function images() {
  const turns = new ImageTurns();
  const underWay: { name: string; end(): void }[] = [];
  const ask = (ref: string, name: string, client = new Client()): Promise<string> =>
    turns
      .inTurn({ tenant: { ref }, outgoing: client } as unknown as ServiceRequest, async () => {
        await new Promise<void>((resolve) => underWay.push({ name, end: resolve }));
        return 'made';
      })
      .catch((error: { status?: number; message: string }) => String(error.status ?? error.message));
  const names = () => underWay.map(({ name }) => name);
  const endFirst = async () => {
    underWay.shift()?.end();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { ask, names, endFirst };
}

test('two images are transformed at a time, and waiting images of one project do not delay another', async () => {
  const { ask, names, endFirst } = images();
  const requests = ['a1', 'a2', 'a3', 'a4'].map((name) => ask('a', name));
  requests.push(ask('b', 'b1'));
  assert.equal(names(), ['a1', 'a2']);
  await endFirst();
  assert.equal(names(), ['a2', 'b1']);
  await endFirst();
  assert.equal(names(), ['b1', 'a3']);
  for (let left = 3; left > 0; left--) await endFirst();
  assert.equal(await Promise.all(requests), Array(5).fill('made'));
});

test('a project has a limit of waiting images, and images of other projects are still accepted', async () => {
  const { ask, names, endFirst } = images();
  const requests = Array.from({ length: 50 }, (_, i) => ask('a', `a${i}`));
  assert.is(await ask('a', 'one more'), '503');
  const other = ask('b', 'b');
  await endFirst();
  assert.ok(names().includes('b'));
  for (let left = 50; left > 0; left--) await endFirst();
  assert.is(await other, 'made');
  assert.equal(await Promise.all(requests), Array(50).fill('made'));
});

test('an image for a disconnected client is not transformed, and frees its place', async () => {
  const { ask, names, endFirst } = images();
  const requests = [ask('a', 'a0'), ask('a', 'a1')];
  const clients = Array.from({ length: 48 }, () => new Client());
  const left = clients.map((client, i) => ask('a', `left ${i}`, client));
  for (const client of clients) client.leave();
  for (const answer of await Promise.all(left)) assert.match(answer, /went away/);
  const disconnected = new Client();
  disconnected.leave();
  assert.match(await ask('a', 'had left', disconnected), /went away/);
  requests.push(ask('a', 'a2'));
  await endFirst();
  assert.equal(names(), ['a1', 'a2']);
  await endFirst();
  await endFirst();
  assert.equal(await Promise.all(requests), Array(3).fill('made'));
});

test.run();
