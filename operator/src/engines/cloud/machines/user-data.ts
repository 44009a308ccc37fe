/**
 * The user data of a machine for its first boot. Every process on the machine can read it, so nothing in it stays
 * valid: the first session over SSH replaces the host key.
 */

export interface HostKeys {
  /** In the format of OpenSSH. */
  privateKey: string;
  publicKey: string;
}

/** Returns a document for cloud-init. Valid YAML, because JSON is. */
export const userDataOf = ({ privateKey, publicKey }: HostKeys): string =>
  `#cloud-config\n${JSON.stringify({
    ssh_deletekeys: true,
    ssh_genkeytypes: [],
    ssh_keys: { ed25519_private: privateKey, ed25519_public: publicKey },
    ssh_pwauth: false,
    disable_root: false,
    package_update: false,
    package_upgrade: false,
  })}\n`;
