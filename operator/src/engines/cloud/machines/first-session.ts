/**
 * The SSH client of a machine, which accepts the host key of that machine alone. The first session replaces the host
 * key of the boot, which every process on the machine could read, by one that the machine makes itself. In: the
 * machine's record. Out: a client, and changes of the record. May be repeated after a cut at any line.
 */
import { fingerprintOf } from '../ssh/connection.js';
import { SshClient } from '../ssh/ssh-client.js';
import { SshError } from '../ssh/ssh-error.js';
import type { MachineRecord } from './record.js';

export interface FirstSession {
  host: string;
  machineId: string;
  record: MachineRecord;
  change(change: { [Key in keyof MachineRecord]?: string | undefined }): Promise<MachineRecord>;
}

const USER = 'root';
const HOST_KEY = '/etc/ssh/slipway_host_ed25519_key';

/** Prints the public key of the machine's own host key. */
const MAKE_KEY = `
set -eu
umask 077
if [ ! -f ${HOST_KEY}.pub ]; then
  rm -f ${HOST_KEY} ${HOST_KEY}.new ${HOST_KEY}.new.pub
  ssh-keygen -q -t ed25519 -N '' -C '' -f ${HOST_KEY}.new
  mv ${HOST_KEY}.new ${HOST_KEY}
  mv ${HOST_KEY}.new.pub ${HOST_KEY}.pub
  sync --file-system /etc/ssh
fi
cat ${HOST_KEY}.pub
`;

/** From then on sshd has this host key alone, and root logs in with a key alone. */
const USE_KEY = `
set -eu
cat > /etc/ssh/sshd_config.d/00-slipway.conf <<'END'
HostKey ${HOST_KEY}
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
AllowUsers root
X11Forwarding no
END
rm -f /etc/ssh/ssh_host_*
sync --file-system /etc/ssh
systemctl reload ssh
`;

/** Rejects with an SshError of the kind `host-key-changed` if another machine has the address. */
export async function openSession(session: FirstSession, signal: AbortSignal): Promise<SshClient> {
  const { host, machineId, record } = session;
  const clientFor = (hostKey: string | undefined) =>
    new SshClient({ host, user: USER, privateKey: record.sshPrivateKey, hostKey });
  const pinned = record.hostKey === undefined ? undefined : clientFor(record.hostKey);
  if (pinned && record.pinnedFor === machineId) return opened(pinned, signal);
  const boot = clientFor(fingerprintOfText(record.bootPublicKey));
  try {
    // The keys may have been replaced, and the record not yet written.
    if (pinned && (await accepts(pinned, signal))) {
      await session.change({ pinnedFor: machineId });
      return pinned;
    }
    await pinned?.close();
    const { stdout } = await boot.run(['sh', '-c', MAKE_KEY], {}, signal);
    const hostKey = fingerprintOfText(stdout);
    await session.change({ hostKey, pinnedFor: undefined });
    await boot.run(['sh', '-c', USE_KEY], {}, signal);
    const client = await opened(clientFor(hostKey), signal);
    await session.change({ pinnedFor: machineId });
    return client;
  } finally {
    await boot.close();
  }
}

async function opened(client: SshClient, signal: AbortSignal): Promise<SshClient> {
  try {
    await client.hostKey(signal);
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

async function accepts(client: SshClient, signal: AbortSignal): Promise<boolean> {
  try {
    await client.hostKey(signal);
    return true;
  } catch (error) {
    if (error instanceof SshError && error.kind === 'host-key-changed') return false;
    throw error;
  }
}

/** `text`: a public key in the format of OpenSSH. */
function fingerprintOfText(text: string): string {
  const [, key = ''] = /^ssh-ed25519 ([A-Za-z0-9+/=]+)/.exec(text.trim()) ?? [];
  if (key === '') throw new SshError('command-failed', 'The machine printed no public host key.');
  return fingerprintOf(Buffer.from(key, 'base64'));
}
