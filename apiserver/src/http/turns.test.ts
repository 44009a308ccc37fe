/** Tests that no request takes a long turn of the thread, with the largest objects and patches that are accepted. */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { longestTurnDuring } from '@slipway/program/decoders.testing.js';
import { TURN_MS } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestApiServer } from '../testing.js';

const CRD = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'things.example.dev' },
  spec: {
    group: 'example.dev',
    scope: 'Cluster',
    names: { plural: 'things', singular: 'thing', kind: 'Thing', listKind: 'ThingList' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
          },
        },
      },
    ],
  },
};
const THINGS = '/apis/example.dev/v1/things';

const server = await startTestApiServer({ crds: [CRD] });
/** Thread that sends the requests, so that only the server's cost is measured in this thread. */
const client = new Worker(
  `const { parentPort, workerData } = require('node:worker_threads');
  const https = require('node:https');
  const agent = new https.Agent({ keepAlive: true, ca: workerData.ca });
  parentPort.on('message', ({ method, path, body, type }) => {
    const headers = {
      authorization: 'Bearer ' + workerData.token, 'content-type': type, 'content-length': body.length,
    };
    const sent = https.request(workerData.url + path, { method, agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => { if (text.length < 1000) text += chunk; });
      response.on('end', () => parentPort.postMessage([response.statusCode, text]));
    });
    sent.on('error', (error) => parentPort.postMessage([0, error.message])).end(body);
  });`,
  { eval: true, workerData: { url: server.url, ca: server.ca, token: server.token } },
);
test.after(async () => {
  await client.terminate();
  await server.close();
});

async function send(method: string, path: string, body: Buffer, type = 'application/json'): Promise<[number, string]> {
  const answered = once(client, 'message');
  client.postMessage({ method, path, body, type });
  const [answer] = await answered;
  return answer;
}

const list = (count: number, item: (i: number) => string) => Array.from({ length: count }, (_, i) => item(i)).join(',');
const thing = (name: string, spec: string) =>
  Buffer.from(`{"apiVersion":"example.dev/v1","kind":"Thing","metadata":{"name":"${name}"},"spec":${spec}}`);

const SPECS: Record<string, string> = {
  numbers: `{"list":[${list(2_400, () => '1')}]}`,
  names: `{${list(1_230, (i) => `"k${i}":1`)}}`,
  objects: `{"list":[${list(810, (i) => `{"k${i}":1}`)}]}`,
  nested: `{${list(115, (i) => `"k${i}":${'{"a":'.repeat(9)}1${'}'.repeat(9)}`)}}`,
  text: `{"text":"${'x'.repeat(1_150_000)}"}`,
  escapes: `{"text":"${'\\u0001'.repeat(190_000)}"}`,
};

for (const [what, spec] of Object.entries(SPECS)) {
  test(`an object of ${what} is created, changed and applied in turns of at most ${TURN_MS} ms`, async () => {
    let made = 0;
    const create = await longestTurnDuring(async () => {
      const [code, text] = await send('POST', THINGS, thing(`${what}-${made++}`, spec));
      assert.is(code, 201, text);
    });
    const label = Buffer.from('{"metadata":{"labels":{"a":"b"}}}');
    const merge = await longestTurnDuring(async () => {
      const [code] = await send('PATCH', `${THINGS}/${what}-${--made}`, label, 'application/merge-patch+json');
      assert.is(code, 200);
    });
    const apply = await longestTurnDuring(async () => {
      const path = `${THINGS}/${what}-${made}?fieldManager=x&force=true`;
      const [code] = await send('PATCH', path, thing(`${what}-${made++}`, spec), 'application/apply-patch+yaml');
      assert.is(code, 200);
    });
    const times = { create, merge, apply };
    assert.ok(Math.max(create, merge, apply) <= TURN_MS, JSON.stringify(times));
  });
}

test('a JSON patch with the maximum number of operations takes no long turn of the event loop', async () => {
  await send('POST', THINGS, thing('patched', SPECS.numbers as string));
  const patch = Buffer.from(`[${list(490, (i) => `{"op":"${i % 2 ? 'remove' : 'test'}","path":"/spec/list/1"}`)}]`);
  const took = await longestTurnDuring(() => send('PATCH', `${THINGS}/patched`, patch, 'application/json-patch+json'));
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test('values, text and YAML beyond the limits are rejected before they are decoded', async () => {
  const values = await send('POST', THINGS, thing('x', `[${'1,'.repeat(2_500)}1]`));
  assert.is(values[0], 413);
  assert.match(values[1], /limit is 2500 values and names/);
  const text = await send('POST', THINGS, thing('x', `"${'x'.repeat(1_600_000)}"`));
  assert.is(text[0], 500);
  assert.match(text[1], /request is too large/);
  const yaml = Buffer.from(`a:\n${'  - b\n'.repeat(1_000)}`);
  const [code, said] = await send('PATCH', `${THINGS}/x?fieldManager=x`, yaml, 'application/apply-patch+yaml');
  assert.is(code, 413);
  assert.match(said, /limit of YAML is 4096; send JSON/);
});

test('a protobuf body with the maximum number of entries takes no long turn of the event loop', async () => {
  const field = (number: number, bytes: Buffer) => Buffer.concat([varint(number * 8 + 2), varint(bytes.length), bytes]);
  const entry = (i: number) => field(2, Buffer.concat([field(1, Buffer.from(`k${i}`)), field(2, Buffer.from('x'))]));
  const message = (count: number) => {
    const metadata = field(1, field(1, Buffer.from('proto')));
    const raw = Buffer.concat([metadata, ...Array.from({ length: count }, (_, i) => entry(i))]);
    const type = Buffer.concat([field(1, Buffer.from('v1')), field(2, Buffer.from('ConfigMap'))]);
    return Buffer.concat([Buffer.from('k8s\0'), field(1, type), field(2, raw)]);
  };
  const path = '/api/v1/namespaces/default/configmaps?dryRun=All';
  const protobuf = 'application/vnd.kubernetes.protobuf';
  assert.is((await send('POST', path, message(800), protobuf))[0], 201);
  for (const count of [800, 60_000]) {
    const body = message(count);
    const took = await longestTurnDuring(() => send('POST', path, body, protobuf));
    assert.ok(took <= TURN_MS, `${count} entries took ${took} ms`);
  }
  assert.is((await send('POST', path, message(60_000), protobuf))[0], 413);
});

function varint(value: number): Buffer {
  const bytes: number[] = [];
  for (let left = value; ; left >>>= 7) {
    if (left < 0x80) return Buffer.from([...bytes, left]);
    bytes.push((left & 0x7f) | 0x80);
  }
}

test.run();
