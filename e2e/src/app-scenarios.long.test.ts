/**
 * Tests apps as people use them on one machine: a static program, an app that is declared as objects of Kubernetes,
 * WebSockets, large uploads, a process that never listens, and the guide.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { API_VERSION, type Build, GROUP, type Project, VERSION } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { withClient } from '@slipway/kubernetes/testing.js';
import { copyPrograms } from '@slipway/operator/machine-programs.js';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { createApp, deployed, dockerfileOf, openApps, push } from './apps.js';
import { followPage, type Page } from './docs-shell.js';
import type { ProjectView } from './management.js';
import { commandOf, processTree } from './processes.js';
import { requestSite } from './site-request.js';

const MIB = 2 ** 20;
const START_MS = 120_000;

// The example account of the guide, which is the first one: the administrator.
const scene = await openApps(undefined, ['me@example.com', 'a long password']);
const { own, platform, lacking } = scene;
const { person, workshop, host } = own;
const home = mkdtempSync(path.join(tmpdir(), 'slipway-guide-'));
const apps = suite('scenarios of apps');
const test = lacking ? apps.skip : apps;
const compilerIsThere = spawnSync('gcc', ['--version']).status === 0;
if (!compilerIsThere) console.log('# skipped: no gcc, so no static program');

apps.after(async () => {
  await scene.close();
  rmSync(home, { recursive: true, force: true });
});

/** A server without a library: the image has this file alone. */
const STATIC = `
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>
static const char response[] = "HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\nConnection: close\\r\\n\\r\\nstatic";
int main(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(getenv("PORT")))};
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 16)) return 1;
  for (;;) {
    int client = accept(listener, 0, 0);
    char request[4096];
    if (read(client, request, sizeof request) > 0)
      write(client, response, sizeof response - 1);
    close(client);
  }
}`;

/** Responds with the size and the hash of a body, and sends back the short text of a WebSocket's frame. */
const SUMS = `
const { createServer } = require('node:http');
const { createHash } = require('node:crypto');
const server = createServer(async (request, response) => {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of request) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  response.end(JSON.stringify({ bytes, sha256: hash.digest('hex') }));
});
server.on('upgrade', (request, socket) => {
  const key = request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
  const accept = createHash('sha1').update(key).digest('base64');
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n' +
    'Sec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n');
  socket.on('data', (frame) => {
    const [mask, masked] = [frame.subarray(2, 6), frame.subarray(6)];
    socket.write(Buffer.concat([Buffer.from([0x81, masked.length]), masked.map((byte, at) => byte ^ mask[at % 4])]));
  });
});
server.listen(process.env.PORT);
`;

/** Makes the repository of a static program. Returns its URL. */
function staticRepository(name: string): string {
  workshop.repository(name, { Dockerfile: 'FROM scratch\nCOPY server /\nCMD ["/server"]\n' });
  const tree = path.join(workshop.folder, 'trees', name);
  mkdirSync(tree, { recursive: true });
  const compiled = spawnSync('gcc', ['-static', '-Os', '-xc', '-', '-o', path.join(tree, 'server')], { input: STATIC });
  assert.is(compiled.status, 0, `${compiled.stderr}`);
  workshop.commit(name);
  return `${host.origin}/${name}.git`;
}

const withCompiler = compilerIsThere ? test : apps.skip;

withCompiler('an image that has a static program alone serves', async () => {
  const project = await person.untilHealthy((await person.createProject('static', undefined, 'app')).id);
  const repo_url = staticRepository('static');
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { repo_url })).status, 200);
  const build = await deployed(own, project);
  assert.is(build.phase, 'Deployed', build.log);
  await until(async () => (await requestSite(project.project_url)).body === 'static', 'it serves');
});

withCompiler('an app that is declared by objects of Kubernetes alone serves, and appears in REST', async () => {
  const ref = 'applied-app';
  const source = { repoUrl: staticRepository(ref) };
  const spec = { owner: person.email, type: 'app', name: ref, source };
  const objects = `/apis/${GROUP}/${VERSION}`;
  const project = { apiVersion: API_VERSION, kind: 'Project', metadata: { name: ref }, spec } as Project;
  await withClient(platform.kubeconfig, (client) => client.create<Project>(`${objects}/projects`, project));
  const shown = await until(async () => {
    const { body } = await person.call<ProjectView[]>('GET', '/projects');
    return body.find((each) => each.ref === ref);
  }, 'the project in REST');
  const { project_url } = await person.untilHealthy(shown.id);
  const metadata = { name: `${ref}-1` };
  const build = { apiVersion: API_VERSION, kind: 'Build', metadata, spec: { project: ref } } as Build;
  await withClient(platform.kubeconfig, async (client) => {
    const builds = `${objects}/namespaces/${namespaceOf(ref)}/builds`;
    await client.create<Build>(builds, build);
    const ended = async () => {
      const { status } = await client.get<Build>(`${builds}/${metadata.name}`);
      return ['Deployed', 'Failed'].includes(status?.phase ?? '') ? status : undefined;
    };
    const status = await until(ended, 'the build ends', START_MS);
    assert.is(status.phase, 'Deployed', status.message);
  });
  await until(async () => (await requestSite(project_url)).body === 'static', 'it serves');
});

let project: ProjectView;

/** Sends zeros without holding them. */
async function upload({ project_url }: ProjectView, megabytes: number): Promise<string> {
  const { port, host } = new URL(project_url);
  const outgoing = request({ host: '127.0.0.1', port, method: 'POST', headers: { host }, agent: false });
  const responded = new Promise<string>((resolve, reject) => {
    outgoing.on('response', (response) => resolve(text(response))).on('error', reject);
  });
  const block = Buffer.alloc(MIB);
  for (let sent = 0; sent < megabytes; sent += 1) {
    if (!outgoing.write(block)) await new Promise((resolve) => outgoing.once('drain', resolve));
  }
  outgoing.end();
  return await responded;
}

/** Returns a number of bytes from the status of a process. */
const memoryOf = (pid: number, field: 'VmHWM' | 'VmRSS'): number =>
  Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024;

test('an upload of 100 MB arrives whole, and the data plane holds a small part of it', async () => {
  project = await createApp(own, 'sums');
  push(own, 'sums', { 'app.js': SUMS });
  const build = await deployed(own, project);
  assert.is(build.phase, 'Deployed', build.log);
  await until(
    () =>
      upload(project, 1)
        .then(JSON.parse)
        .catch(() => undefined),
    'it serves',
  );
  const tree = await processTree(platform.pid);
  const commands = await Promise.all(tree.map(async (pid) => [pid, await commandOf(pid)] as const));
  const [dataplane] = commands.find(([, command]) => command.includes('dataplane/dist/main.js')) ?? [];
  assert.ok(dataplane);
  const before = memoryOf(dataplane, 'VmRSS');
  // The kernel forgets the highest use so far.
  writeFileSync(`/proc/${dataplane}/clear_refs`, '5');
  const response = JSON.parse(await upload(project, 100));
  const hash = createHash('sha256');
  for (let block = 0; block < 100; block += 1) hash.update(Buffer.alloc(MIB));
  assert.equal(response, { bytes: 100 * MIB, sha256: hash.digest('hex') });
  const more = memoryOf(dataplane, 'VmHWM') - before;
  assert.ok(more < 64 * MIB, `${more} bytes more`);
});

test('a WebSocket of an app sends back what it gets', async () => {
  const { port, host } = new URL(project.project_url);
  const headers = {
    host,
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-version': '13',
    'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==',
  };
  const outgoing = request({ host: '127.0.0.1', port, headers, agent: false }).end();
  const echo = await new Promise<Buffer>((resolve, reject) => {
    outgoing.on('response', ({ statusCode }) => reject(new Error(`the handshake got ${statusCode}`)));
    outgoing.on('error', reject);
    outgoing.on('upgrade', (_, socket) => {
      socket.on('data', (frame: Buffer) => {
        resolve(frame);
        socket.destroy();
      });
      socket.write(
        Buffer.from([0x81, 0x80 | 4, 1, 2, 3, 4, ...Buffer.from('echo').map((byte, at) => byte ^ (at + 1))]),
      );
    });
  });
  assert.is(`${echo.subarray(2)}`, 'echo');
});

test('a process that never listens ends its deploy with the reason and the fix', async () => {
  push(own, 'sums', { Dockerfile: dockerfileOf(), 'app.js': 'setInterval(() => {}, 1000);' });
  const build = await deployed(own, project);
  assert.is(build.phase, 'Failed');
  assert.match(build.message, /listens at no port: let it listen at the port in PORT, which is 8080/);
  assert.is(JSON.parse(await upload(project, 1)).bytes, MIB);
});

test('a Dockerfile that can not be built ends its deploy with the reason', async () => {
  for (const [wrong, why] of [
    ['BOGUS instruction', /can not be built: .*bogus/i],
    ['COPY nothing-there /', /can not be built: .*nothing-there/],
  ] as const) {
    push(own, 'sums', { Dockerfile: `FROM scratch\n${wrong}\n` });
    const { phase, message, log } = await deployed(own, project);
    assert.is(phase, 'Failed');
    assert.match(message, why, log);
  }
});

test('the commands of docs/guides/deploy-an-app.md work literally', async () => {
  workshop.repository('guide', { 'README.md': 'empty' });
  const repository = `${host.origin}/guide.git`;
  // This server only serves clones, so pushes go to its folder.
  const pushed = `[url "${workshop.folder}/bare/guide.git"]\n\tpushInsteadOf = ${repository}\n`;
  writeFileSync(path.join(home, '.gitconfig'), `${pushed}[user]\n\tname = Test\n\temail = test@example.org\n`);
  // No image can be pulled here, so the image has this machine's Node instead of node:22-slim.
  await copyPrograms(path.join(home, 'my-app/base'), [process.execPath]);
  const page: Page = {
    page: 'docs/guides/deploy-an-app.md',
    passes: 1,
    blocks: [
      /^$/,
      /^$/,
      /"email":"me@example.com"|email_taken/,
      /"status":"healthy"[\s\S]*\/health\n$/,
      /event: end[\s\S]*"phase":"Deployed"/,
      /^Hello from version 1\n$/,
      /event: end[\s\S]*"phase":"Deployed"[\s\S]*\nHello from version 2\n$/,
      /Z listens\n/,
      /Hello from version 1\n$/,
    ],
    replace: [
      ['https://github.com/me/my-app.git', repository],
      ['FROM node:22-slim', 'FROM scratch\nCOPY base /'],
      ['CMD ["node",', `CMD ["${process.execPath}",`],
    ],
  };
  await followPage(page, platform, home);
});

apps.run();
