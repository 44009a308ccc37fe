/** Secrets that sign the messages of webhooks: 32 random bytes, stored encrypted, shown once. */
import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { Keyring } from '../projects/keyring.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';

const BYTES = 32;
const PREFIX = 'whsec_';

@Injectable()
export class WebhookSecrets {
  private readonly keyring: Keyring;

  constructor(@Inject(SETTINGS) settings: ApiSettings) {
    this.keyring = new Keyring(settings.encryptionKeys);
  }

  make(projectId: number): { shown: string; sealed: string } {
    const shown = PREFIX + randomBytes(BYTES).toString('base64');
    return { shown, sealed: this.keyring.seal(shown, placeOf(projectId)) };
  }

  /** Returns the secret encrypted with the current key; undefined: it is. */
  sealAnew(projectId: number, sealed: string): string | undefined {
    if (this.keyring.isCurrent(sealed)) return undefined;
    return this.keyring.seal(this.keyring.open(sealed, placeOf(projectId)), placeOf(projectId));
  }

  /** Returns the bytes that sign. */
  open(projectId: number, sealed: string): Buffer {
    return Buffer.from(this.keyring.open(sealed, placeOf(projectId)).slice(PREFIX.length), 'base64');
  }
}

/** The encrypted value works in no other project. */
const placeOf = (projectId: number) => `webhook of project ${projectId}`;
