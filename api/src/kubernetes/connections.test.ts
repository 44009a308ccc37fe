/**
 * Tests connections to the Kubernetes API, through a relay to a real server: their number, and recovery when one
 * breaks.
 */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { startTestApiServer } from '@slipway/apiserver/testing.js';
import { API_VERSION, customResourceDefinitions, type Project } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from '../http/problem.js';
import { connect as connectTo, Kubernetes } from './client.js';

/** The relay's limit of open connections. The one-machine API server has one too: 2,000. */
const MOST_CONNECTIONS = 50;

/** TCP relay in front of the server. It refuses connections over the limit, and can break one in mid-request. */
class Relay {
  opened = 0;
  refused = 0;
  /** Closes the connection of the next bytes that a client sends on an open connection. */
  breakNext = false;
  readonly #server: Server;
  readonly #clients = new Set<Socket>();

  private constructor(port: number) {
    this.#server = createServer((client) => this.#accept(client, port));
  }

  static async to(url: string): Promise<Relay> {
    const relay = new Relay(Number(new URL(url).port));
    relay.#server.listen(0, '127.0.0.1');
    await once(relay.#server, 'listening');
    return relay;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    for (const client of this.#clients) client.destroy();
    this.#server.close();
  }

  #accept(client: Socket, port: number): void {
    client.on('error', () => undefined);
    if (this.#clients.size >= MOST_CONNECTIONS) {
      this.refused += 1;
      client.destroy();
      return;
    }
    this.opened += 1;
    this.#clients.add(client);
    const onward = connect(port, '127.0.0.1');
    onward.on('error', () => undefined).on('close', () => client.destroy());
    onward.pipe(client);
    client.on('close', () => {
      this.#clients.delete(client);
      onward.destroy();
    });
    client.on('data', (bytes) => {
      if (this.breakNext) {
        this.breakNext = false;
        client.destroy();
      } else onward.write(bytes);
    });
  }
}

interface World {
  relay: Relay;
  kubernetes: Kubernetes;
  uid: string;
  close(): Promise<void>;
}
const test = suite<World>('connections to the Kubernetes API');

test.before.each(async (world) => {
  const server = await startTestApiServer({ crds: customResourceDefinitions });
  world.relay = await Relay.to(server.url);
  const text = await readFile(server.kubeconfig, 'utf8');
  const through = `${server.kubeconfig}-relay`;
  await writeFile(through, text.replace(server.url, `https://127.0.0.1:${world.relay.port}`));
  world.kubernetes = new Kubernetes(await connectTo(through));
  const project = {
    apiVersion: API_VERSION,
    kind: 'Project',
    metadata: { name: 'shop' },
    spec: { owner: 'ann@e.com' },
  };
  const made = await world.kubernetes.createProject(project as Project);
  world.uid = made.metadata.uid as string;
  world.close = async () => {
    await world.kubernetes.client.close();
    world.relay.close();
    await server.close();
  };
});
test.after.each(({ close }) => close());

const patch = ({ kubernetes, uid }: World, name: string) =>
  kubernetes.patchProject('shop', { metadata: { uid }, spec: { name } });

test('sequential requests share connections, and stay below the server’s limit', async (world) => {
  for (let count = 0; count < 3 * MOST_CONNECTIONS; count++) await patch(world, `shop-${count}`);
  assert.is(world.relay.refused, 0);
  assert.ok(world.relay.opened < 5, `${world.relay.opened} connections`);
});

test('simultaneous requests share a bounded number of connections', async (world) => {
  await Promise.all(Array.from({ length: 3 * MOST_CONNECTIONS }, () => world.kubernetes.getProject('shop')));
  assert.is(world.relay.refused, 0);
});

test('a read is repeated when its idle connection breaks', async (world) => {
  world.relay.breakNext = true;
  assert.is((await world.kubernetes.getProject('shop'))?.metadata.uid, world.uid);
  assert.not(world.relay.breakNext);
});

test('a delete with a uid is repeated when its idle connection breaks', async (world) => {
  world.relay.breakNext = true;
  await world.kubernetes.deleteProject('shop', world.uid);
  assert.is(await world.kubernetes.getProject('shop'), undefined);
});

test('a patch is not repeated when its idle connection breaks, as the server may have applied it', async (world) => {
  world.relay.breakNext = true;
  const error = await patch(world, 'another').catch((refusal: unknown) => refusal);
  assert.ok(error instanceof Problem && error.kind === 'unavailable', String(error));
  assert.is((await world.kubernetes.getProject('shop'))?.spec.name, undefined);
});

test.run();
