/**
 * A snapshot with the software of this release, from which new machines boot. It has no secret, no host key and no
 * machine id. In: the provider. Out: the id of the image. Made once for a release, on a machine of its own that is
 * deleted afterwards; an interrupted attempt is continued or cleared by the next one.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Region } from '@slipway/crds';
import type { Logger } from 'pino';
import type { Labels, Machine, MachineChoice, MachineProvider } from '../provider.js';
import { installSoftware } from '../software/install-software.js';
import type { Pack } from '../software/pack/pack.js';
import { PACKAGES } from '../software/state/state.js';
import { fingerprintOf } from '../ssh/connection.js';
import { SshClient } from '../ssh/ssh-client.js';
import { goldenLabels, labelsOfInstallation, RELEASE_LABEL } from './labels.js';
import { newSshKeys } from './ssh-keys.js';
import { userDataOf } from './user-data.js';

export interface GoldenImageDeps {
  provider: MachineProvider;
  /** The label of this installation at the provider. */
  installation: string;
  baseImage: string;
  choices(region: Region, signal: AbortSignal): Promise<MachineChoice[]>;
  /** Returns the id of the installation's firewall. */
  firewall(signal: AbortSignal): Promise<string>;
  pack(): Promise<Pack>;
  log: Logger;
}

/** The smallest size: a snapshot fits only a disk that is at least as large. */
const SIZE = 'cpx11';
const KNOWN_MS = 5 * 60_000;
const RETRY_MS = 60 * 60_000;
const BUILD_MS = 45 * 60_000;
const BOOT_MS = 5 * 60_000;
const POLL_MS = 1_000;

const INSTALL_PACKAGES = `
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=120 ${PACKAGES.join(' ')}
systemctl disable --now nginx pgbouncer nftables 2>/dev/null || true
apt-get clean
`;

/** cloud-init makes everything of a machine's own again at the first boot of the snapshot. */
const CLEAR = `
set -eu
cloud-init clean --logs
rm -rf /etc/ssh/ssh_host_* /etc/ssh/slipway_host_* /etc/ssh/sshd_config.d/00-slipway.conf /root/.ssh /root/.bash_history
rm -rf /var/lib/cloud /var/log/journal/* /var/log/cloud-init* /var/tmp/* /var/lib/slipway /etc/slipway
rm -f /var/lib/dbus/machine-id /var/lib/systemd/random-seed
: > /etc/machine-id
sync
`;

export class GoldenImage {
  #known: { until: number; id: Promise<string | undefined> } | undefined;
  #work: Promise<void> | undefined;
  #retryAt = 0;
  #isThere = false;
  readonly #stop = new AbortController();

  constructor(private readonly deps: GoldenImageDeps) {}

  /** Returns the id of the image for this release. Undefined: there is none yet. */
  id(signal: AbortSignal): Promise<string | undefined> {
    if (this.#known && this.#known.until > performance.now()) return this.#known.id;
    const id = this.#find(signal);
    id.catch(() => {
      this.#known = undefined;
    });
    this.#known = { until: performance.now() + KNOWN_MS, id };
    return id;
  }

  /** Makes the image in the background, unless it exists or was tried a moment ago. */
  begin(region: Region): void {
    if (this.#isThere || this.#work || performance.now() < this.#retryAt) return;
    this.#work = this.#make(region)
      .then(() => {
        this.#isThere = true;
      })
      .catch((error: Error) => {
        if (this.#stop.signal.aborted) return;
        this.#retryAt = performance.now() + RETRY_MS;
        this.deps.log.warn({ why: error.message }, 'no snapshot for machines made; new ones install the software');
      })
      .finally(() => {
        this.#work = undefined;
      });
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the operator ends'));
    await this.#work;
  }

  async #find(signal: AbortSignal): Promise<string | undefined> {
    const { id: release } = await this.deps.pack();
    const found = await this.deps.provider.listSnapshots(goldenLabels(this.deps.installation, release), signal);
    return found.find(({ isComplete }) => isComplete)?.id;
  }

  async #make(region: Region): Promise<void> {
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(BUILD_MS)]);
    if ((await this.#find(signal)) !== undefined) return;
    const { provider, installation, log } = this.deps;
    const pack = await this.deps.pack();
    const labels = goldenLabels(installation, pack.id);
    // Keys are in no record: the machine of an interrupted attempt can't be logged in to.
    await provider.delete(labels, signal);
    const begun = performance.now();
    try {
      const machine = await this.#installed(labels, region, pack, signal);
      await provider.createSnapshot(machine.id, { labels, description: `Slipway ${pack.id}` }, signal);
    } finally {
      await provider.delete(labels, this.#stop.signal);
    }
    this.#known = undefined;
    log.info(
      { release: pack.id, seconds: Math.round((performance.now() - begun) / 1000) },
      'snapshot for machines made',
    );
    await this.#deleteFormer(pack.id, signal);
  }

  /** Returns a machine that is off, with the software and nothing else. */
  async #installed(labels: Labels, region: Region, pack: Pack, signal: AbortSignal): Promise<Machine> {
    const { provider, installation, baseImage } = this.deps;
    // No project has this name, because a ref has no dot.
    const name = `image.${installation}`;
    const [login, host] = [newSshKeys(), newSshKeys()];
    const key = await provider.ensureKey({ name, labels, publicKey: login.public }, signal);
    const choices = (await this.deps.choices(region, signal)).filter(({ size }) => size === SIZE);
    const firewall = await this.deps.firewall(signal);
    const userData = userDataOf({ privateKey: host.private, publicKey: host.public });
    const request = { name, labels, choices, image: baseImage, userData, keys: [key], firewall };
    const { id } = await provider.ensureMachine(request, signal);
    const running = await this.#until(
      id,
      ({ state, address }) => state === 'running' && address !== undefined,
      BOOT_MS,
    );
    const ssh = new SshClient({
      host: running.address as string,
      user: 'root',
      privateKey: login.private,
      hostKey: fingerprintOf(Buffer.from(host.public.split(' ')[1] ?? '', 'base64')),
    });
    try {
      await reachable(ssh, AbortSignal.any([signal, AbortSignal.timeout(BOOT_MS)]));
      await installSoftware(ssh, pack, signal);
      await ssh.run(['sh', '-c', INSTALL_PACKAGES], { timeoutMs: BOOT_MS }, signal);
      await ssh.run(['sh', '-c', CLEAR], {}, signal);
    } finally {
      await ssh.close();
    }
    await provider.shutDown(id, signal);
    return running;
  }

  async #until(id: string, isReached: (machine: Machine) => boolean, patienceMs: number): Promise<Machine> {
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(patienceMs)]);
    for (;;) {
      const machine = await this.deps.provider.observe(id, signal);
      if (!machine) throw new Error('the machine for the snapshot was deleted at the provider');
      if (isReached(machine)) return machine;
      await sleep(POLL_MS, undefined, { signal });
    }
  }

  /** Snapshots of projects have other labels. */
  async #deleteFormer(release: string, signal: AbortSignal): Promise<void> {
    const { provider, installation } = this.deps;
    for (const { id, labels } of await provider.listSnapshots(labelsOfInstallation(installation), signal)) {
      const of = labels[RELEASE_LABEL];
      if (of !== undefined && of !== release) await provider.deleteSnapshot(id, signal);
    }
  }
}

/** Resolves once sshd has the keys of the user data. */
async function reachable(ssh: SshClient, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await ssh.hostKey(signal);
      return;
    } catch {
      signal.throwIfAborted();
      await sleep(POLL_MS, undefined, { signal });
    }
  }
}
