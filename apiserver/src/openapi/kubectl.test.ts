import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestApiServer, type TestApiServer } from '../testing.js';

const run = promisify(execFile);
const hasKubectl = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
);

const DEFINITION = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'boats.kubectltest.slipway.dev' },
  spec: {
    group: 'kubectltest.slipway.dev',
    names: { kind: 'Boat', plural: 'boats', singular: 'boat', listKind: 'BoatList' },
    scope: 'Cluster',
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: {
              spec: {
                type: 'object',
                description: 'What the owner wants.',
                properties: {
                  sail: { type: 'string', description: 'The cloth it moves by.' },
                  crew: {
                    type: 'object',
                    description: 'Who is aboard.',
                    properties: { captain: { type: 'string' }, size: { type: 'integer', default: 1, maximum: 9 } },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

interface Outcome {
  code: number;
  out: string;
  error: string;
}

let server: TestApiServer;
let folder: string;

async function kubectl(args: readonly string[], editor = 'false'): Promise<Outcome> {
  const env = { PATH: process.env.PATH ?? '', HOME: folder, KUBECONFIG: server.kubeconfig, KUBE_EDITOR: editor };
  try {
    const { stdout, stderr } = await run('kubectl', [...args], { env });
    return { code: 0, out: stdout, error: stderr };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, out: stdout, error: stderr };
  }
}

async function file(name: string, spec: Record<string, unknown>): Promise<string> {
  const at = path.join(folder, `${name}.json`);
  const object = { apiVersion: 'kubectltest.slipway.dev/v1', kind: 'Boat', metadata: { name }, spec };
  await writeFile(at, JSON.stringify(object));
  return at;
}

const apply = async (name: string, spec: Record<string, unknown>, ...flags: string[]) =>
  kubectl(['apply', ...flags, '-f', await file(name, spec)]);

async function stored(name: string) {
  const { out } = await kubectl(['get', 'boat', name, '-o', 'json', '--show-managed-fields']);
  return JSON.parse(out) as { metadata: { resourceVersion: string }; spec: Record<string, unknown> };
}

const test = suite('kubectl');

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-kubectl-'));
  server = await startTestApiServer({ crds: [DEFINITION] });
});
test.after(async () => {
  await server?.close();
  await rm(folder, { recursive: true, force: true });
});

test('explain tells each field of a custom resource, with its type and description', async () => {
  const { out, error } = await kubectl(['explain', 'boat.spec', '--recursive']);
  assert.match(out, /KIND: +Boat/, error);
  assert.match(out, 'What the owner wants.');
  assert.match(out, /crew\t<Object>\s+captain\t<string>\s+size\t<integer>/);
});

test('explain tells the built-in kinds', async () => {
  for (const kind of ['namespace', 'secret', 'configmap', 'event', 'lease', 'customresourcedefinition']) {
    const { out, error } = await kubectl(['explain', kind]);
    assert.match(out, /metadata\t<ObjectMeta>/, `${kind} ${error}`);
  }
});

test('apply refuses an unknown field, and only warns when asked to', async () => {
  const refused = await apply('strict', { sale: 'red' });
  assert.match(refused.error, 'strict decoding error: unknown field "spec.sale"');
  const warned = await apply('strict', { sale: 'red' }, '--validate=warn');
  assert.match(warned.error, 'Warning: unknown field "spec.sale"');
  assert.is(warned.code, 0);
});

test('apply creates, leaves alone and changes', async () => {
  assert.match((await apply('plain', { sail: 'red' })).out, 'created');
  assert.match((await apply('plain', { sail: 'red' })).out, 'unchanged');
  assert.match((await apply('plain', { sail: 'blue' })).out, 'configured');
  assert.equal((await stored('plain')).spec, { sail: 'blue' });
});

test('a server-side apply that changes nothing makes no new version', async () => {
  await apply('calm', { sail: 'red', crew: { captain: 'a' } }, '--server-side');
  const before = await stored('calm');
  await apply('calm', { sail: 'red', crew: { captain: 'a' } }, '--server-side');
  assert.equal(await stored('calm'), before);
  assert.equal(before.spec, { sail: 'red', crew: { captain: 'a', size: 1 } });
});

test('a server-side apply of what another manages conflicts until it is forced', async () => {
  await apply('rival', { sail: 'red' }, '--server-side', '--field-manager=a');
  const refused = await apply('rival', { sail: 'blue' }, '--server-side', '--field-manager=b');
  assert.match(refused.error, 'Apply failed with 1 conflict: conflict with "a": .spec.sail');
  const forced = await apply('rival', { sail: 'blue' }, '--server-side', '--field-manager=b', '--force-conflicts');
  assert.is(forced.code, 0, forced.error);
  assert.equal((await stored('rival')).spec, { sail: 'blue' });
});

test('an object of client-side apply moves to server-side apply, and drops what is no longer applied', async () => {
  await apply('moving', { sail: 'red', crew: { captain: 'a' } });
  const moved = await apply('moving', { sail: 'blue' }, '--server-side');
  assert.is(moved.code, 0, moved.error);
  assert.equal((await stored('moving')).spec, { sail: 'blue' });
});

test('a dry run on the server tells what would be and keeps nothing', async () => {
  await apply('dry', { sail: 'red' });
  const { out } = await apply('dry', { sail: 'blue', crew: {} }, '--dry-run=server', '-o=json');
  assert.equal(JSON.parse(out).spec, { sail: 'blue', crew: { size: 1 } });
  assert.equal((await stored('dry')).spec, { sail: 'red' });
});

test('edit changes the object, and tells what is wrong with an edit', async () => {
  await apply('edited', { sail: 'red', crew: { size: 2 } });
  assert.match((await kubectl(['edit', 'boat', 'edited'], 'sed -i s/red/blue/g')).out, 'edited');
  assert.is((await stored('edited')).spec.sail, 'blue');
  const wrong = await kubectl(['edit', 'boat', 'edited'], 'sed -i "s/size: 2/size: 20/"');
  assert.match(wrong.error, 'is invalid');
});

test('built-in kinds are created, patched and applied', async () => {
  await kubectl(['create', 'namespace', 'harbour']);
  await kubectl(['create', 'configmap', 'c', '-n', 'harbour', '--from-literal=a=1']);
  const patched = await kubectl(['patch', 'configmap', 'c', '-n', 'harbour', '-p', '{"data":{"b":"2"}}']);
  assert.is(patched.code, 0, patched.error);
  const at = path.join(folder, 'c.json');
  const object = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'c', namespace: 'harbour' },
    data: { c: '3' },
  };
  await writeFile(at, JSON.stringify(object));
  await kubectl(['apply', '--server-side', '-f', at]);
  const { out } = await kubectl(['get', 'configmap', 'c', '-n', 'harbour', '-o', 'jsonpath={.data}']);
  assert.equal(JSON.parse(out), { a: '1', b: '2', c: '3' });
});

if (hasKubectl) test.run();
else console.log('# skipped: no kubectl on this machine');
