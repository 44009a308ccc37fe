/** New keys for SSH. */
import ssh2 from 'ssh2';

/** Both in the format of OpenSSH. */
export interface SshKeys {
  private: string;
  public: string;
}

export const newSshKeys = (): SshKeys => ssh2.utils.generateKeyPairSync('ed25519');
