/**
 * Encrypts secret objects before they are stored in Postgres: AES-256-GCM with the current key, bound to the object's
 * name.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

/** The resources that are encrypted. */
const SEALED = new Set(['secrets']);
const IV_BYTES = 12;
const TAG_BYTES = 16;

export interface EncryptionKeys {
  current: string;
  /** Keys of 32 bytes in base64, by id. */
  keys: Record<string, string>;
}

export interface Place {
  resource: string;
  namespace: string;
  name: string;
}

export class Encryption {
  readonly current: string;
  readonly #keys = new Map<string, Buffer>();

  constructor({ current, keys }: EncryptionKeys) {
    this.current = current;
    for (const [id, text] of Object.entries(keys)) {
      const key = Buffer.from(text, 'base64');
      if (key.length !== 32)
        throw new Error(`encryption key "${id}" has ${key.length} bytes; it must be 32, in base64`);
      this.#keys.set(id, key);
    }
    if (!this.#keys.has(current)) throw new Error(`the current encryption key "${current}" is not among the keys`);
  }

  covers(resource: string): boolean {
    return SEALED.has(resource);
  }

  seal(bytes: Buffer, place: Place): Buffer {
    const iv = randomBytes(IV_BYTES);
    const cipher = createCipheriv('aes-256-gcm', this.#key(this.current), iv).setAAD(placeBytes(place));
    const body = Buffer.concat([cipher.update(bytes), cipher.final()]);
    return Buffer.concat([iv, cipher.getAuthTag(), body]);
  }

  open(sealed: Buffer, keyId: string, place: Place): Buffer {
    const iv = sealed.subarray(0, IV_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', this.#key(keyId), iv).setAAD(placeBytes(place));
    decipher.setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    return Buffer.concat([decipher.update(sealed.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
  }

  #key(id: string): Buffer {
    const key = this.#keys.get(id);
    if (!key) throw new Error(`a stored object is sealed with key "${id}", which the keys file does not have`);
    return key;
  }
}

const placeBytes = ({ resource, namespace, name }: Place) => Buffer.from(`${resource}/${namespace}/${name}`);
