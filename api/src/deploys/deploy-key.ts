/**
 * Makes an SSH key pair: ed25519, in the formats of OpenSSH (RFC 8709 and OpenSSH's PROTOCOL.key). Pure except for
 * randomness.
 */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';

const TYPE = 'ssh-ed25519';
const LINE = 70;
const BLOCK = 8;

export interface DeployKey {
  /** One line, in the format of `authorized_keys` and git hosts. */
  publicKey: string;
  fingerprint: string;
  /** The content of a private key file. */
  privateKey: string;
}

export function newDeployKey(comment: string): DeployKey {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' });
  const [publicBytes, seed] = [Buffer.from(x as string, 'base64url'), Buffer.from(d as string, 'base64url')];
  const blob = Buffer.concat([text(TYPE), text(publicBytes)]);
  return {
    publicKey: `${TYPE} ${blob.toString('base64')} ${comment}`,
    fingerprint: `SHA256:${createHash('sha256').update(blob).digest('base64').replace(/=+$/, '')}`,
    privateKey: privateFile(blob, Buffer.concat([seed, publicBytes]), comment),
  };
}

function privateFile(blob: Buffer, secret: Buffer, comment: string): string {
  const check = randomBytes(4);
  const open = Buffer.concat([check, check, blob, text(secret), text(comment)]);
  const padding = Buffer.from(Array.from({ length: (BLOCK - (open.length % BLOCK)) % BLOCK }, (_, at) => at + 1));
  const head = [Buffer.from('openssh-key-v1\0'), text('none'), text('none'), text(''), number(1)];
  const bytes = Buffer.concat([...head, text(blob), text(Buffer.concat([open, padding]))]);
  const lines = bytes.toString('base64').match(new RegExp(`.{1,${LINE}}`, 'g')) ?? [];
  return ['-----BEGIN OPENSSH PRIVATE KEY-----', ...lines, '-----END OPENSSH PRIVATE KEY-----', ''].join('\n');
}

/** Encodes a `string` of the SSH protocol (RFC 4251, section 5): its length, then its bytes. */
const text = (value: string | Buffer) => {
  const bytes = Buffer.from(value as string);
  return Buffer.concat([number(bytes.length), bytes]);
};

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
