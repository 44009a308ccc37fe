import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { KubeClient } from './client.js';
import { Informer } from './informer.js';
import type { KubeObject } from './objects.js';
import { anonymousAt, clientOf, deleteAndWait, startTestKubernetes, type TestKubernetes } from './testing.js';

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

/** A proxy between an informer and the real API server. It can break traffic as networks do. */
class FaultyPath {
  readonly server: Server;
  readonly #sockets = new Set<Socket>();
  readonly watches: { response: ServerResponse; url: string; silent: boolean }[] = [];
  /** Answers a watch with an error of this code. */
  refusal: (version: string) => number | undefined = () => undefined;

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
    const code = this.refusal(query.resourceVersion as string);
    if (code !== undefined) {
      const object = { kind: 'Status', code, reason: 'Expired', message: 'a resource version that cannot be served' };
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
      return;
    }
    const stop = new AbortController();
    response.on('close', () => stop.abort());
    const lines = this.upstream.lines({ method: 'GET', path: pathname, query, signal: stop.signal }, 600_000);
    for await (const line of lines) if (!watch.silent) response.write(`${line}\n`);
    if (!watch.silent) response.end();
  }

  /** Stops forwarding events of the open watches, without closing them. */
  silence(): void {
    for (const watch of this.watches) watch.silent = true;
  }

  /** Sends an event on the last watch, as the server would. */
  tell(type: string, object: KubeObject): void {
    this.watches.at(-1)?.response.write(`${JSON.stringify({ type, object })}\n`);
  }

  breakConnections(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async client(): Promise<KubeClient> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    const { port } = this.server.address() as AddressInfo;
    return KubeClient.connect(anonymousAt(port));
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

interface Watched {
  path: FaultyPath;
  informer: Informer<ConfigMap>;
  /** The reasons of watch restarts. */
  restarts: string[];
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
  const restarts: string[] = [];
  const informer = new Informer<ConfigMap>({
    client,
    resource: 'configmaps',
    path: CONFIG_MAPS,
    labelSelector: `${LABEL}=${run}`,
    indexes: { value: ({ data }) => (data?.value ? [data.value] : []) },
    metrics: { watchRestarted: (_resource, reason) => restarts.push(reason) },
    log: pino({ level: 'silent' }),
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
    await work({ path, informer, restarts, kubernetes, write });
  } finally {
    await informer.close();
    await client.close();
    await path.close();
    await upstream.close();
    for (const name of names) await deleteAndWait(kubernetes.client, `${CONFIG_MAPS}/${run}-${name}`);
  }
}

const dataOf = (informer: Informer<ConfigMap>, name: string) => informer.get(name, 'default')?.data?.value;

test('a started informer has all objects, follows changes, and finds objects by index', async ({ kubernetes }) => {
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

test('a watch resumes at its version without a new list, and loses no change, when its connection drops', async ({
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

test('an informer lists again when its version has expired, and reports deletions too', async ({ kubernetes }) => {
  await watched(kubernetes, 'gone', async ({ informer, path, write, restarts }) => {
    await write('a', 'one');
    await write('b', 'one');
    const told: string[] = [];
    informer.onChange(({ before, after }) => told.push(`${before?.data?.value ?? '-'}→${after?.data?.value ?? '-'}`));
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    await write('a', 'two');
    await kubernetes.client.delete(`${CONFIG_MAPS}/gone-b`);
    const refused = new Set<string>();
    path.refusal = (version) => (refused.size === 0 && refused.add(version) ? 410 : undefined);
    path.breakConnections();
    await until(() => dataOf(informer, 'gone-a') === 'two', 'the new list');
    await until(() => informer.list().length === 1, 'the deletion');
    assert.equal(told.sort(), ['one→-', 'one→two', '-→one', '-→one'].sort());
    assert.is(restarts.filter((reason) => reason === 'gone').length, 1);
  });
});

test('an informer lists again when the server rejects its version repeatedly', async ({ kubernetes }) => {
  await watched(kubernetes, 'refused', async ({ informer, path, write }) => {
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    await write('a', 'one');
    const [first] = path.watches;
    path.refusal = (version) => (first?.url.includes(`resourceVersion=${version}&`) ? 504 : undefined);
    path.breakConnections();
    await until(() => dataOf(informer, 'refused-a') === 'one', 'the new list');
    await write('a', 'two');
    await until(() => dataOf(informer, 'refused-a') === 'two', 'a watch of the new version');
  });
});

test('learn() of an informer stores a write’s result at once, and a late result restores no object', async ({
  kubernetes,
}) => {
  await watched(kubernetes, 'learn', async ({ informer, path }) => {
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    const metadata = { name: 'learn-a', labels: { [LABEL]: 'learn' } };
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata };
    const created = await kubernetes.client.create<ConfigMap>(CONFIG_MAPS, object);
    informer.learn(created);
    assert.ok(informer.get('learn-a', 'default'));
    const changed = await kubernetes.client.patch<ConfigMap>(`${CONFIG_MAPS}/learn-a`, { data: { value: 'one' } });
    informer.learn(changed);
    informer.learn(created);
    assert.is(dataOf(informer, 'learn-a'), 'one');
    await kubernetes.client.delete(`${CONFIG_MAPS}/learn-a`);
    informer.forget(changed);
    informer.learn(changed);
    assert.is(informer.get('learn-a', 'default'), undefined);
    path.breakConnections();
    await until(() => path.watches.length === 2, 'the next watch');
    const again = await kubernetes.client.create<ConfigMap>(CONFIG_MAPS, object);
    informer.learn(again);
    informer.learn(changed);
    assert.is(informer.get('learn-a', 'default')?.metadata.uid, again.metadata.uid);
    await deleteAndWait(kubernetes.client, `${CONFIG_MAPS}/learn-a`);
    await until(() => informer.list().length === 0, 'the deletion');
  });
});

test('late events of a replaced object do not change the new object of the same name', async ({ kubernetes }) => {
  await watched(kubernetes, 'late', async ({ informer, path, write }) => {
    await write('a', 'first');
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    const first = informer.get('late-a', 'default') as ConfigMap;
    const at = `${CONFIG_MAPS}/late-a`;
    const changed = await kubernetes.client.patch<ConfigMap>(at, { data: { value: 'changed' } });
    await deleteAndWait(kubernetes.client, at);
    const { name, labels } = first.metadata as { name: string; labels: Record<string, string> };
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, labels }, data: { value: 'second' } };
    const second = await kubernetes.client.create<ConfigMap>(CONFIG_MAPS, object);
    informer.learn(second);
    path.tell('MODIFIED', changed);
    path.tell('DELETED', changed);
    const bookmark = {
      ...changed,
      metadata: { ...changed.metadata, resourceVersion: second.metadata.resourceVersion },
    };
    path.tell('BOOKMARK', bookmark as ConfigMap);
    // Sent after those events, so that they have been read when it arrives.
    const other = { metadata: { name: 'late-b', namespace: 'default', uid: 'b', resourceVersion: '999999999' } };
    path.tell('ADDED', other);
    await until(() => informer.get('late-b', 'default'), 'the last event');
    assert.is(dataOf(informer, 'late-a'), 'second');
    informer.learn({ ...changed, metadata: { ...changed.metadata, name: 'late-c', uid: 'c' } });
    assert.is(informer.get('late-c', 'default'), undefined, 'the watch is past this version');
  });
});

test('an informer replaces a connection that failed without being closed', async ({ kubernetes }) => {
  const work = async ({ informer, path, write }: Watched) => {
    await write('a', 'one');
    await informer.start();
    await until(() => path.watches.length === 1, 'the watch');
    path.silence();
    await write('a', 'two');
    // The first watch stays silent for ever: its lines are dropped.
    await until(() => path.watches.length > 1, 'another watch');
    await until(() => dataOf(informer, 'dead-a') === 'two', 'the change');
  };
  await watched(kubernetes, 'dead', work, 1);
});

test('an informer recovers when the API server was unavailable for a while', async ({ kubernetes }) => {
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
