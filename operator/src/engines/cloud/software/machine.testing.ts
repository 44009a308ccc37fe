/** A machine of the test cloud, with an SSH client of root. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { hetznerProvider } from '../hetzner/provider.js';
import type { Machine, MachineProvider } from '../provider.js';
import { openConnection } from '../ssh/connection.js';
import { SshClient } from '../ssh/ssh-client.js';

const BOOT_MS = 60_000;
const CAP_NET_ADMIN = 1n << 12n;
const { signal } = new AbortController();

export class TestMachine {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-software-'));
  readonly #labels = { 'slipway.test/run': `s${process.pid}` };
  #provider: MachineProvider | undefined;
  readonly #forwarders: Server[] = [];
  #firewall = '';
  #id = '';
  ssh!: SshClient;
  address = '';

  /** `ports` are open at the provider. `image`: the id of a snapshot. Default: Debian. */
  static async create(url: string, ports: string[], image = 'debian-12'): Promise<TestMachine> {
    const machine = new TestMachine();
    try {
      await machine.#create(url, ports, image);
      return machine;
    } catch (error) {
      await machine.delete();
      throw error;
    }
  }

  async #create(url: string, ports: string[], image: string) {
    const tokenFile = path.join(this.folder, 'token');
    const keyFile = path.join(this.folder, 'key');
    writeFileSync(tokenFile, 'any-token');
    spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', keyFile]);
    const provider = hetznerProvider({ url, tokenFile });
    this.#provider = provider;
    const labels = this.#labels;
    const name = `slipway-s${process.pid}`;
    const rules = ports.map((port) => ({ protocol: 'tcp', ports: port, sources: ['0.0.0.0/0'] }) as const);
    this.#firewall = await provider.ensureFirewall({ name, labels, rules }, signal);
    const key = await provider.ensureKey({ name, labels, publicKey: readFileSync(`${keyFile}.pub`, 'utf8') }, signal);
    const choices = (await provider.choices('eu-central', signal)).filter(({ size }) => size === 'cpx11');
    const request = { name, labels, choices, image, keys: [key], firewall: this.#firewall };
    this.#id = (await provider.ensureMachine(request, signal)).id;
    const { address = '' } = await this.#running();
    this.address = address;
    this.ssh = new SshClient(this.#target());
    await until(() => this.ssh.hostKey(signal).catch(() => undefined), 'the machine accepts SSH', BOOT_MS);
  }

  #running = async () =>
    (await until(
      () => this.#provider?.observe(this.#id, signal),
      (machine) => machine?.state === 'running',
      BOOT_MS,
    )) as Machine;

  #target() {
    const privateKey = readFileSync(path.join(this.folder, 'key'), 'utf8');
    return { host: this.address, user: 'root', privateKey, hostKey: undefined };
  }

  /** Makes a certificate for the machine's address. It is its own authority. */
  certificate(): { chain: string; privateKey: string } {
    const [chain, key] = ['chain.pem', 'key.pem'].map((name) => path.join(this.folder, name)) as [string, string];
    const kind = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
    const subject = ['-subj', '/CN=machine', '-addext', `subjectAltName=IP:${this.address}`];
    spawnSync('openssl', [...kind, ...subject, '-keyout', key, '-out', chain]);
    return { chain: readFileSync(chain, 'utf8'), privateKey: readFileSync(key, 'utf8') };
  }

  /** False if the provider's machines may not load packet filters, as in a container without CAP_NET_ADMIN. */
  async mayFilter(): Promise<boolean> {
    const bounding = /CapBnd:\s*([0-9a-f]+)/.exec(await this.sh('cat /proc/self/status'))?.[1];
    return (BigInt(`0x${bounding}`) & CAP_NET_ADMIN) !== 0n;
  }

  /** Returns a folder with a Unix socket of the same name as that on the machine, and each connection leads there. */
  async forward(remote: string): Promise<string> {
    const server = createServer((local) => {
      local.on('error', () => local.destroy());
      const opened = openConnection(this.#target(), signal);
      const refuse = () => local.destroy();
      opened.then(({ client }) => {
        client.on('error', refuse);
        local.once('close', () => client.end());
        client.openssh_forwardOutStreamLocal(remote, (error, channel) => {
          if (error) return refuse();
          channel.on('error', refuse).on('close', refuse);
          local.pipe(channel).pipe(local);
        });
      }, refuse);
    });
    this.#forwarders.push(server);
    await new Promise<void>((resolve) => server.listen(path.join(this.folder, path.basename(remote)), resolve));
    return this.folder;
  }

  /** Returns once the machine has booted again, and accepts SSH. */
  async reboot(): Promise<void> {
    const bootId = () => this.sh('systemctl show --property=UserspaceTimestamp');
    const before = await bootId();
    await this.#provider?.reboot(this.#id, signal);
    const after = () => bootId().catch(() => before);
    await until(after, (id) => id !== before, BOOT_MS);
  }

  /** Runs the script on the machine, and returns its output. */
  async sh(script: string, exitCodes: readonly number[] = [0]): Promise<string> {
    return (await this.ssh.run(['sh', '-c', script], { exitCodes }, signal)).stdout.trim();
  }

  /** Deletes everything at the provider. */
  async delete(): Promise<void> {
    for (const server of this.#forwarders) server.close();
    await this.ssh?.close();
    await this.#provider?.delete(this.#labels, signal);
    if (this.#firewall) await this.#provider?.deleteFirewall(this.#firewall, signal);
    await this.#provider?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
