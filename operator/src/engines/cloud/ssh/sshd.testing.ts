/** A real sshd on loopback, with keys of its own, for tests. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';

const SSHD = '/usr/sbin/sshd';
export const hasSshd = existsSync(SSHD);

export class Sshd {
  readonly folder = mkdtempSync(path.join(tmpdir(), 'slipway-sshd-'));
  readonly user = userInfo().username;
  port = 0;
  #child: ChildProcess | undefined;

  static async start(): Promise<Sshd> {
    const sshd = new Sshd();
    for (const name of ['host', 'other-host', 'client', 'stranger']) sshd.#makeKey(name);
    writeFileSync(path.join(sshd.folder, 'authorized'), readFileSync(path.join(sshd.folder, 'client.pub')));
    sshd.port = await freePort();
    await sshd.run('host');
    return sshd;
  }

  key(name: string): string {
    return readFileSync(path.join(this.folder, name), 'utf8');
  }

  /** Returns the fingerprint by OpenSSH's own program. */
  fingerprint(name: string): string {
    const { stdout } = spawnSync('ssh-keygen', ['-lf', path.join(this.folder, `${name}.pub`)], { encoding: 'utf8' });
    return stdout.split(' ')[1] ?? '';
  }

  /** Starts it with the host key, in the place of the one that runs. */
  async run(hostKey: string): Promise<void> {
    await this.stop();
    // Root's sshd requires this folder.
    if (process.getuid?.() === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const options = {
      Port: this.port,
      ListenAddress: '127.0.0.1',
      HostKey: path.join(this.folder, hostKey),
      AuthorizedKeysFile: path.join(this.folder, 'authorized'),
      PidFile: 'none',
      StrictModes: 'no',
      UsePAM: 'no',
      PasswordAuthentication: 'no',
      Subsystem: 'sftp internal-sftp',
    };
    const file = path.join(this.folder, 'sshd_config');
    const lines = Object.entries(options).map(([name, value]) => `${name} ${value}\n`);
    writeFileSync(file, lines.join(''));
    this.#child = spawn(SSHD, ['-D', '-e', '-f', file], { stdio: 'ignore' });
    await until(() => accepts(this.port), 'sshd accepts connections', 10_000);
  }

  /** Ends sshd and its sessions, as if the machine lost its power. */
  async stop(): Promise<void> {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    for (const session of this.sessions()) process.kill(session, 'SIGKILL');
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Ends the sessions alone, as if the connections were cut. */
  cut(): void {
    for (const session of this.sessions()) process.kill(session, 'SIGKILL');
  }

  sessions(): number[] {
    const { stdout } = spawnSync('ps', ['-o', 'pid=', '--ppid', String(this.#child?.pid)], { encoding: 'utf8' });
    return stdout.split('\n').filter(Boolean).map(Number);
  }

  async close(): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true });
  }

  #makeKey(name: string): void {
    spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', '', '-f', path.join(this.folder, name)]);
  }
}

const accepts = (port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
