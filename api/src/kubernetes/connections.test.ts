/**
 * The connections to the Kubernetes API, through a relay to a real server: how many there are, and what happens when
 * one breaks.
 */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { startTestApiServer } from '@slipway/apiserver';
import { API_VERSION, customResourceDefinitions, type Project } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Problem } from '../http/problem.js';
import { Kubernetes, kubeConfig } from './client.js';

/** A server has a limit of open connections; ours is 2,000. */
const MOST_CONNECTIONS = 50;

/**
 * A TCP port in front of the server, which refuses connections over the limit and can break one at the worst moment.
 */
class Relay {
  opened = 0;
  refused = 0;
  /** The next bytes of a client on an open connection are not passed on: that connection is closed instead. */
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
  world.kubernetes = new Kubernetes(kubeConfig(through));
  const project = {
    apiVersion: API_VERSION,
    kind: 'Project',
    metadata: { name: 'shop' },
    spec: { owner: 'ann@e.com' },
  };
  const made = await world.kubernetes.createProject(project as Project);
  world.uid = made.metadata.uid as string;
  world.close = async () => {
    world.relay.close();
    await server.close();
  };
});
test.after.each(({ close }) => close());

const patch = ({ kubernetes, uid }: World, name: string) =>
  kubernetes.patchProject('shop', { metadata: { uid }, spec: { name } });

test('requests one after another share connections, so that the server’s limit is never reached', async (world) => {
  for (let count = 0; count < 3 * MOST_CONNECTIONS; count++) await patch(world, `shop-${count}`);
  assert.is(world.relay.refused, 0);
  assert.ok(world.relay.opened < 5, `${world.relay.opened} connections`);
});

test('requests at the same time share a bounded number of connections', async (world) => {
  await Promise.all(Array.from({ length: 3 * MOST_CONNECTIONS }, () => world.kubernetes.getProject('shop')));
  assert.is(world.relay.refused, 0);
});

test('a read whose kept connection breaks is repeated', async (world) => {
  world.relay.breakNext = true;
  assert.is((await world.kubernetes.getProject('shop'))?.metadata.uid, world.uid);
  assert.not(world.relay.breakNext);
});

test('a delete that names its object is repeated when its kept connection breaks', async (world) => {
  world.relay.breakNext = true;
  await world.kubernetes.deleteProject('shop', world.uid);
  assert.is(await world.kubernetes.getProject('shop'), undefined);
});

test('a patch whose kept connection breaks is not sent twice, as the server may have done it', async (world) => {
  world.relay.breakNext = true;
  const error = await patch(world, 'another').catch((refusal: unknown) => refusal);
  assert.ok(error instanceof Problem && error.kind === 'unavailable', String(error));
  assert.is((await world.kubernetes.getProject('shop'))?.spec.name, undefined);
});

test.run();
