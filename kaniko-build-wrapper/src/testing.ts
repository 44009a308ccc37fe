/** For tests: real git servers, repositories, and builds in temporary folders. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';
import type { BuildEvents, BuildRequest, BuildResult } from './index.js';
import { runBuild } from './index.js';
import { machineNpm } from './toolchain/machine-npm.js';

const MIB = 2 ** 20;
export const LIMITS = {
  milliseconds: 300_000,
  processMemoryBytes: 8192 * MIB,
  memoryBytes: 4096 * MIB,
  processes: 4096,
  diskBytes: 2048 * MIB,
  logBytes: 10 * MIB,
};
export const LOOPBACK = ['127.0.0.0/8', '::1/128'];

/** Returns the networks of npm's registry. A mirror may have an address outside of the internet. */
export async function registryNetworks(): Promise<string[]> {
  const registry = new URL((await machineNpm())?.registry ?? 'https://localhost').hostname;
  const addresses = await lookup(registry, { all: true });
  return addresses.map(({ address, family }) => `${address}/${family === 4 ? 32 : 128}`);
}

/** A folder for one test file. `close` removes it. */
export class Workshop {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  #count = 0;

  /** The servers listen at `address`. */
  constructor(readonly address = '127.0.0.1') {
    chmodSync(this.folder, 0o711);
  }

  /** Makes a bare repository of the files, and returns its name. Contents that are objects become JSON. */
  repository(name: string, files: Readonly<Record<string, string | object>>): string {
    const tree = path.join(this.folder, 'trees', name);
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(tree, file)), { recursive: true });
      writeFileSync(path.join(tree, file), typeof content === 'string' ? content : JSON.stringify(content));
    }
    this.git(tree, 'init', '--quiet', '--initial-branch=main');
    return this.commit(name);
  }

  /** Commits all files of the repository's tree. */
  commit(name: string): string {
    const tree = path.join(this.folder, 'trees', name);
    this.git(tree, 'add', '--all');
    this.git(tree, 'commit', '--quiet', '--allow-empty', '--message=Test');
    return this.publish(name);
  }

  /** Adds and commits a link to a commit of another repository, as `git submodule add` does. */
  link(parent: string, place: string, url: string, commit: string): string {
    const tree = path.join(this.folder, 'trees', parent);
    for (const [name, value] of Object.entries({ path: place, url }))
      this.git(tree, 'config', '--file', '.gitmodules', `submodule.${place}.${name}`, value);
    this.git(tree, 'add', '.gitmodules');
    this.git(tree, 'update-index', '--add', '--cacheinfo', `160000,${commit},${place}`);
    this.git(tree, 'commit', '--quiet', '--message=Link');
    return this.publish(parent);
  }

  /** Makes the bare repository of the repository's tree. */
  publish(name: string): string {
    const tree = path.join(this.folder, 'trees', name);
    const bare = path.join(this.folder, 'bare', `${name}.git`);
    rmSync(bare, { recursive: true, force: true });
    this.git(tree, 'clone', '--quiet', '--bare', tree, bare);
    return this.git(tree, 'rev-parse', 'HEAD').trim();
  }

  git(tree: string, ...words: string[]): string {
    const identity = ['-c', 'user.name=Test', '-c', 'user.email=test@example.org'];
    const env = { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' };
    return execFileSync('git', [...identity, ...words], { cwd: tree, encoding: 'utf8', env });
  }

  /** Runs a build, and returns its events and its result. */
  async build(
    changes: Partial<BuildRequest> & Pick<BuildRequest, 'source'>,
    signal: AbortSignal = new AbortController().signal,
  ): Promise<RecordedBuild> {
    const work = path.join(this.folder, `work-${++this.#count}`);
    const cache = path.join(this.folder, `cache-${changes.ref ?? 'test'}`);
    for (const folder of [work, cache]) mkdirSync(folder, { recursive: true });
    const recorded = new RecordedBuild();
    const request: BuildRequest = {
      ref: 'test',
      build: `test-${this.#count}`,
      credentials: { token: null, deployKey: null },
      settings: NOTHING_SET,
      env: {},
      folders: { work, cache },
      limits: LIMITS,
      deployment: { BRANCH: 'main', SITE_URL: 'http://shop.localhost:4000' },
      reach: { allowed: LOOPBACK },
      certificates: this.certificate().file,
      ...changes,
    };
    try {
      recorded.result = await runBuild(request, recorded, signal);
    } catch (error) {
      recorded.error = error as Error;
    }
    recorded.end();
    return recorded;
  }

  /** Returns a self-signed certificate of localhost. */
  certificate(): { file: string; key: string; cert: string } {
    const [file, key] = ['cert.pem', 'key.pem'].map((name) => path.join(this.folder, name)) as [string, string];
    this.#certificate ??= (() => {
      const names = `subjectAltName=DNS:localhost,IP:${this.address}`;
      const subject = ['-subj', '/CN=localhost', '-addext', names];
      const words = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...subject];
      execFileSync('openssl', [...words, '-keyout', key, '-out', file], { stdio: 'ignore' });
      return { file, key: readFileSync(key, 'utf8'), cert: readFileSync(file, 'utf8') };
    })();
    return this.#certificate;
  }
  #certificate: { file: string; key: string; cert: string } | undefined;

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export const NOTHING_SET = {
  rootDir: undefined,
  framework: undefined,
  installCommand: undefined,
  buildCommand: undefined,
  outputDir: undefined,
};

/** The events and the result of a build. */
export class RecordedBuild implements BuildEvents {
  readonly steps: string[] = [];
  readonly commits: string[] = [];
  readonly logs: Record<string, string> = {};
  result: BuildResult | undefined;
  error: Error | undefined;

  step(step: string): void {
    this.#endStep();
    this.steps.push(step);
  }

  /** Ends the last step. */
  end(): void {
    this.#endStep();
  }

  /** Duration of each step. */
  readonly millisecondsOf: Record<string, number> = {};
  #begin = performance.now();

  #endStep(): void {
    const last = this.steps.at(-1);
    if (last !== undefined) this.millisecondsOf[last] ??= performance.now() - this.#begin;
    this.#begin = performance.now();
  }

  commit(sha: string): void {
    this.commits.push(sha);
  }

  log(section: string, text: string): void {
    this.logs[section] = (this.logs[section] ?? '') + text;
  }

  get text(): string {
    return Object.values(this.logs).join('');
  }

  /** Returns the content of a file of the output. */
  file(name: string): string {
    if (this.result === undefined) throw new Error(`the build failed: ${this.error?.stack}\n${this.text}`);
    return readFileSync(path.join(this.result.output, name), 'utf8');
  }
}

/** `git http-backend` over https. If there is a token, every request must have it as the password. */
export class GitServer {
  readonly #server: Server;
  /** The URL and the `Authorization` header of each request. */
  readonly requests: { url: string; authorization: string | undefined }[] = [];
  /** Milliseconds by which each response is delayed. */
  delayMs = 0;

  constructor(
    private readonly workshop: Workshop,
    private readonly token?: string,
  ) {
    const { key, cert } = workshop.certificate();
    this.#server = createServer({ key, cert }, (request, response) =>
      setTimeout(() => this.#answer(request, response), this.delayMs),
    );
  }

  async listen(): Promise<this> {
    await once(this.#server.listen(0, this.workshop.address), 'listening');
    return this;
  }

  get origin(): string {
    return `https://${this.workshop.address}:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Settings of a platform that may clone from this server. */
  get settings(): Record<string, string> {
    return { SLIPWAY_ALLOWED_NETWORKS: LOOPBACK.join(','), SLIPWAY_CA_FILE: this.workshop.certificate().file };
  }

  source(name: string, revision = 'main') {
    return { repoUrl: `${this.origin}/${name}.git`, revision, submodules: false };
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const url = request.url ?? '';
    const { authorization } = request.headers;
    this.requests.push({ url, authorization });
    const password = Buffer.from(authorization?.split(' ')[1] ?? '', 'base64')
      .toString()
      .split(':')[1];
    if (this.token !== undefined && password !== this.token)
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
    const [place = '', query = ''] = url.split('?');
    const backend = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: path.join(this.workshop.folder, 'bare'),
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: place,
        QUERY_STRING: query,
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: String(request.headers['content-encoding'] ?? ''),
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
      },
    });
    request.pipe(backend.stdin.on('error', () => undefined));
    const chunks: Buffer[] = [];
    backend.stdout.on('data', (chunk) => chunks.push(chunk));
    backend.once('close', () => {
      const answer = Buffer.concat(chunks);
      const end = answer.indexOf('\r\n\r\n');
      for (const line of answer.subarray(0, end).toString().split('\r\n')) {
        const [name = '', value = ''] = line.split(/: ?(.*)/);
        if (name.toLowerCase() === 'status') response.statusCode = Number(value.slice(0, 3));
        else response.setHeader(name, value);
      }
      response.end(answer.subarray(end + 4));
    });
  }
}

/** A real sshd on loopback, which serves the workshop's repositories to one key. */
export class SshServer {
  #process: ChildProcess | undefined;
  readonly key: string;
  #port = 0;

  constructor(private readonly workshop: Workshop) {
    this.key = this.#keyPair('client');
  }

  async listen(): Promise<this> {
    this.#port = await freePort();
    const folder = this.workshop.folder;
    this.#keyPair('host');
    const bare = path.join(folder, 'bare');
    const shell = path.join(folder, 'git-shell');
    const program = `git -c safe.directory='*' upload-pack`;
    const served = `set -- $SSH_ORIGINAL_COMMAND; name=\${2#\\'}; exec ${program} "${bare}/\${name%\\'}"`;
    writeFileSync(shell, `#!/bin/sh\n${served}\n`, { mode: 0o755 });
    this.authorize(readFileSync(path.join(folder, 'client.pub'), 'utf8'));
    mkdirSync('/run/sshd', { recursive: true });
    const options = {
      ListenAddress: '127.0.0.1',
      Port: this.#port,
      HostKey: path.join(folder, 'host'),
      AuthorizedKeysFile: path.join(folder, 'authorized'),
      PidFile: 'none',
      StrictModes: 'no',
      UsePAM: 'no',
      PermitRootLogin: 'yes',
    };
    const words = Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
    this.#process = spawn('/usr/sbin/sshd', ['-D', '-f', '/dev/null', ...words], { stdio: 'ignore' });
    await until(() => isListening(this.#port), 'sshd');
    return this;
  }

  /** Serves the repositories to these public keys alone. */
  authorize(...publicKeys: string[]): void {
    const { folder } = this.workshop;
    const lines = publicKeys.map((key) => `restrict,command="${path.join(folder, 'git-shell')}" ${key.trim()}\n`);
    writeFileSync(path.join(folder, 'authorized'), lines.join(''), { mode: 0o600 });
  }

  /** Replaces the host key of the server. */
  async changeHostKey(): Promise<void> {
    this.close();
    for (const name of ['host', 'host.pub']) rmSync(path.join(this.workshop.folder, name));
    await this.listen();
  }

  source(name: string) {
    const repoUrl = `ssh://${userInfo().username}@127.0.0.1:${this.#port}/${name}.git`;
    return { repoUrl, revision: 'main', submodules: false };
  }

  close(): void {
    this.#process?.kill();
  }

  #keyPair(name: string): string {
    const file = path.join(this.workshop.folder, name);
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', file]);
    return readFileSync(file, 'utf8');
  }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
