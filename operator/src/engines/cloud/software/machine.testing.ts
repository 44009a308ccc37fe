/** A machine of the test cloud, with an SSH client of root. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { hetznerProvider } from '../hetzner/provider.js';
import type { Machine, MachineProvider } from '../provider.js';
import { SshClient } from '../ssh/ssh-client.js';

const BOOT_MS = 60_000;
const { signal } = new AbortController();

export class TestMachine {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-software-'));
  readonly #labels = { 'slipway.test/run': `s${process.pid}` };
  #provider: MachineProvider | undefined;
  #firewall = '';
  ssh!: SshClient;
  address = '';

  /** `ports` are open at the provider. */
  static async create(url: string, ports: string[]): Promise<TestMachine> {
    const machine = new TestMachine();
    try {
      await machine.#create(url, ports);
      return machine;
    } catch (error) {
      await machine.delete();
      throw error;
    }
  }

  async #create(url: string, ports: string[]) {
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
    const request = { name, labels, choices, image: 'debian-12', keys: [key], firewall: this.#firewall };
    const { id } = await provider.ensureMachine(request, signal);
    const { address = '' } = (await until(
      () => provider.observe(id, signal),
      (machine) => machine?.state === 'running',
      BOOT_MS,
    )) as Machine;
    this.address = address;
    const privateKey = readFileSync(keyFile, 'utf8');
    this.ssh = new SshClient({ host: address, user: 'root', privateKey, hostKey: undefined });
    await until(() => this.ssh.hostKey(signal).catch(() => undefined), 'the machine accepts SSH', BOOT_MS);
  }

  /** Runs the script on the machine, and returns its output. */
  async sh(script: string, exitCodes: readonly number[] = [0]): Promise<string> {
    return (await this.ssh.run(['sh', '-c', script], { exitCodes }, signal)).stdout.trim();
  }

  /** Deletes everything at the provider. */
  async delete(): Promise<void> {
    await this.ssh?.close();
    await this.#provider?.delete(this.#labels, signal);
    if (this.#firewall) await this.#provider?.deleteFirewall(this.#firewall, signal);
    await this.#provider?.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}
