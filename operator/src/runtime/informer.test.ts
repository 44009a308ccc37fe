import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { clientOf, deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes, until } from '../testing.js';
import { Informer } from './informer.js';
import { KubeClient, type KubeObject } from './kube.js';
import { Metrics } from './metrics.js';

const LABEL = 'slipway.dev/informer-test';
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

const test = suite<{ kubernetes: TestKubernetes }>('informer');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
});
test.after(async ({ kubernetes }) => {
  await kubernetes.close();
});

/** Stands between an informer and the real API server, and can break what passes, as networks do. */
class FaultyPath {
  readonly server: Server;
  readonly #sockets = new Set<Socket>();
  readonly watches: { response: ServerResponse; url: string; silent: boolean }[] = [];
  /** How many of the next watches are answered with 410. */
  gone = 0;

  constructor(readonly upstream: KubeClient) {
    this.server = createServer((request, response) => {
      this.#pass(request, response).catch(() => response.destroy());
    });
    this.server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    });
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url as string, 'http://path');
    const query = Object.fromEntries(searchParams);
    if (!query.watch) {
      response.end(JSON.stringify(await this.upstream.get(pathname, query)));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    const watch = { response, url: request.url as string, silent: false };
    this.watches.push(watch);
    if (this.gone > 0) {
      this.gone -= 1;
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
      return;
    }
    const stop = new AbortController();
    response.on('close', () => stop.abort());
    const lines = this.upstream.lines({ method: 'GET', path: pathname, query, signal: stop.signal }, 600_000);
    for await (const line of lines) if (!watch.silent) response.write(`${line}\n`);
    if (!watch.silent) response.end();
  }

  /** Nothing of the watches under way is passed on any more, and nobody is told. */
  silence(): void {
    for (const watch of this.watches) watch.silent = true;
  }

  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async client(): Promise<KubeClient> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    const { port } = this.server.address() as AddressInfo;
    const config = new KubeConfig();
    config.loadFromClusterAndUser(
      { name: 'path', server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
      { name: 'nobody' },
    );
    return KubeClient.connect(config);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

interface Watched {
  path: FaultyPath;
  informer: Informer<ConfigMap>;
  metrics: Metrics;
  kubernetes: TestKubernetes;
  write(name: string, value: string): Promise<void>;
}

async function watched(
  kubernetes: TestKubernetes,
  run: string,
  work: (watched: Watched) => Promise<void>,
  watchSeconds = 45,
) {
  const upstream = await clientOf(kubernetes.kubeconfig);
  const path = new FaultyPath(upstream);
  const client = await path.client();
  const metrics = new Metrics();
  const informer = new Informer<ConfigMap>({
    client,
    resource: 'configmaps',
    path: CONFIG_MAPS,
    labelSelector: `${LABEL}=${run}`,
    indexes: { value: ({ data }) => (data?.value ? [data.value] : []) },
    metrics,
    log: silentLog,
    watchSeconds,
    silenceGraceMs: 500,
    backoff: { firstMs: 5, maxMs: 50 },
  });
  const names = new Set<string>();
  const write = async (name: string, value: string) => {
    const object = { metadata: { name: `${run}-${name}`, labels: { [LABEL]: run } }, data: { value } };
    if (names.has(name)) await kubernetes.client.patch(`${CONFIG_MAPS}/${run}-${name}`, object);
    else await kubernetes.client.create<ConfigMap>(CONFIG_MAPS, { apiVersion: 'v1', kind: 'ConfigMap', ...object });
    names.add(name);
  };
  try {
    await work({ path, informer, metrics, kubernetes, write });
  } finally {
    await informer.close();
    await client.close();
    await path.close();
    await upstream.close();
    for (const name of names) await deleteAndWait(kubernetes.client, `${CONFIG_MAPS}/${run}-${name}`);
  }
}

const dataOf = (informer: Informer<ConfigMap>, name: string) => informer.get(name, 'default')?.data?.value;

test('a started informer holds what is there, follows changes, and finds objects by index', async ({ kubernetes }) => {
  await watched(kubernetes, 'follow', async ({ informer, write }) => {
    await write('a', 'one');
    await informer.start();
    assert.is(dataOf(informer, 'follow-a'), 'one');
    await write('a', 'two');
    await write('b', 'two');
    await until(() => informer.find('value', 'two').length === 2, 'both under two');
    assert.equal(informer.find('value', 'one'), []);
    await kubernetes.client.delete(`${CONFIG_MAPS}/follow-b`);
    await until(() => informer.list().length === 1, 'the deletion');
    assert.is(informer.find('value', 'two').length, 1);
  });
});

test('a dropped connection loses no change, and is resumed where it was rather than listed anew', async ({
  kubernetes,
}) => {
  await watched(kubernetes, 'drop', async ({ informer, path, write }) => {
    await write('a', '0');
    await informer.start();
    for (let round = 1; round <= 5; round++) {
      await until(() => path.watches.length >= round, 'a watch');
      path.breakConnections();
      await write('a', String(round));
      await until(() => dataOf(informer, 'drop-a') === String(round), `change ${round}`);
    }
    for (const { url } of path.watches) assert.match(url, /resourceVersion=\d+/);
  });
});

test('a version that the server no longer has is answered by a new list, which tells of deletions too', async ({
  kubernetes,
}) => {
  await watched(kubernetes, 'gone', async ({ informer, path, write, metrics }) => {
    await write('a', 'one');
    await write('b', 'one');
    const told: string[] = [];
    informer.onChange(({ before, after }) => told.push(`${before?.data?.value ?? '-'}→${after?.data?.value ?? '-'}`));
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    await write('a', 'two');
    await kubernetes.client.delete(`${CONFIG_MAPS}/gone-b`);
    path.gone = 1;
    path.breakConnections();
    await until(() => dataOf(informer, 'gone-a') === 'two', 'the new list');
    await until(() => informer.list().length === 1, 'the deletion');
    assert.equal(told.sort(), ['one→-', 'one→two', '-→one', '-→one'].sort());
    assert.match(
      await metrics.registry.metrics(),
      /slipway_watch_restarts_total\{resource="configmaps",reason="gone"\} 1/,
    );
  });
});

test('a connection that has died without a word is noticed and replaced', async ({ kubernetes }) => {
  const work = async ({ informer, path, write }: Watched) => {
    await write('a', 'one');
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    await write('a', 'two');
    // The first watch stays silent for ever: its lines are gone.
    await until(() => path.watches.length > 1, 'another watch');
    await until(() => dataOf(informer, 'dead-a') === 'two', 'the change');
  };
  await watched(kubernetes, 'dead', work, 1);
});

test('an API server that is away for a while is waited for', async ({ kubernetes }) => {
  await watched(kubernetes, 'away', async ({ informer, path, write }) => {
    await informer.start();
    const address = path.server.address() as AddressInfo;
    path.breakConnections();
    await path.close();
    await write('a', 'one');
    await new Promise<void>((resolve) => path.server.listen(address.port, '127.0.0.1', resolve));
    await until(() => dataOf(informer, 'away-a') === 'one', 'the change');
  });
});

test.run();
