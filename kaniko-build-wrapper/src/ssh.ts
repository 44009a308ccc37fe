/**
 * Configures the ssh that git uses in a clone. In: the source, the deploy key and folders. Out: variables of git. The
 * key is in a file that only the clone can read. The host keys of the large git hosts are built in. The key of any
 * other host is stored at its first use, once for each project.
 */

import { chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Account, systemProgram } from '@slipway/sandbox';

/** The hosts publish these keys. Each host has keys of other kinds too, but all hosts offer this kind. */
const KNOWN_HOSTS: Readonly<Record<string, string>> = {
  'bitbucket.org': 'AAAAC3NzaC1lZDI1NTE5AAAAIIazEu89wgQZ4bqs3d63QSMzYVa0MuJ2e2gKTKqu+UUO',
  'codeberg.org': 'AAAAC3NzaC1lZDI1NTE5AAAAIIVIC02vnjFyL+I4RHfvIGNtOgJMe769VTF1VR4EB3ZB',
  'github.com': 'AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl',
  'gitlab.com': 'AAAAC3NzaC1lZDI1NTE5AAAAIAfuCHKVTjquxvt6CM6tdG4SLp1Btn/nOeHHE5UOzRdf',
};
const TUNNEL = fileURLToPath(new URL('./egress/tunnel.mjs', import.meta.url));

export interface Ssh {
  env: Record<string, string>;
  readable: string[];
  writable: string[];
  /** Removes the key. */
  close(): void;
}

export interface SshFolders {
  work: string;
  cache: string;
  socket: string;
}

export function sshFor(deployKey: string | null, { work, cache, socket }: SshFolders, account?: Account): Ssh {
  const [keys, hosts] = [path.join(work, 'key'), path.join(cache, 'ssh')];
  for (const folder of [keys, hosts]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    own(folder, account);
  }
  const [key, pinned, learned] = [path.join(keys, 'key'), path.join(keys, 'pinned'), path.join(hosts, 'known_hosts')];
  write(
    pinned,
    Object.entries(KNOWN_HOSTS)
      .map(([host, value]) => `${host} ssh-ed25519 ${value}\n`)
      .join(''),
    account,
  );
  if (deployKey) write(key, `${deployKey.trim()}\n`, account);
  const node = process.execPath;
  const options = {
    BatchMode: 'yes',
    CheckHostIP: 'no',
    ClearAllForwardings: 'yes',
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    IdentityFile: deployKey ? key : 'none',
    PasswordAuthentication: 'no',
    PermitLocalCommand: 'no',
    ProxyCommand: `${[node, TUNNEL, socket].map(quoted).join(' ')} %h %p`,
    StrictHostKeyChecking: 'accept-new',
    // If the key of a known host has changed, ssh refuses the connection.
    UserKnownHostsFile: `${learned} ${pinned}`,
  };
  const words = Object.entries(options).map(([name, value]) => `-o ${quoted(`${name}=${value}`)}`);
  return {
    env: { GIT_SSH_COMMAND: `ssh -F /dev/null ${words.join(' ')}`, GIT_SSH_VARIANT: 'ssh' },
    readable: [keys, node, TUNNEL],
    writable: [hosts],
    close: () => rmSync(keys, { recursive: true, force: true }),
  };
}

/** True if the machine has an ssh client, which repositories at ssh URLs need. */
export const hasSsh = () => systemProgram('ssh') !== undefined;

function write(file: string, content: string, account: Account | undefined): void {
  writeFileSync(file, content, { mode: 0o600 });
  own(file, account);
}

function own(place: string, account: Account | undefined): void {
  if (account) chownSync(place, account.uid, account.gid);
}

const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;
