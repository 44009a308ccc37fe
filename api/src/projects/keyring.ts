/**
 * Encrypts users' secrets (AES-256-GCM). An encrypted value names its key, so keys can be rotated: add a key and make
 * it `current`, then `git-token-upkeep.ts` encrypts stored values again. `place` is authenticated, so a value can't be
 * moved to another object.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const FORMAT = 'v1';
const TAG_BYTES = 16;

export class Keyring {
  private readonly keys: Map<string, Buffer>;

  constructor(private readonly settings: { current: string; keys: Record<string, string> }) {
    this.keys = new Map(Object.entries(settings.keys).map(([id, key]) => [id, Buffer.from(key, 'base64')]));
  }

  seal(plain: string, place: string): string {
    const { current } = this.settings;
    const nonce = randomBytes(12);
    const cipher = createCipheriv(CIPHER, this.key(current), nonce).setAAD(Buffer.from(place));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final(), cipher.getAuthTag()]);
    return [FORMAT, current, nonce.toString('base64url'), sealed.toString('base64url')].join(':');
  }

  open(value: string, place: string): string {
    const [format, id, nonce, sealed] = value.split(':');
    if (format !== FORMAT || !id || !nonce || !sealed) throw new Error('not a sealed value');
    const bytes = Buffer.from(sealed, 'base64url');
    const decipher = createDecipheriv(CIPHER, this.key(id), Buffer.from(nonce, 'base64url'), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-TAG_BYTES));
    return Buffer.concat([decipher.update(bytes.subarray(0, -TAG_BYTES)), decipher.final()]).toString();
  }

  isCurrent(value: string): boolean {
    return value.startsWith(`${FORMAT}:${this.settings.current}:`);
  }

  private key(id: string): Buffer {
    const key = this.keys.get(id);
    if (!key) throw new Error(`the encryption key ${id} is missing`);
    return key;
  }
}
