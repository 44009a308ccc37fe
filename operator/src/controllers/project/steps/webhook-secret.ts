/** The secret of a project's webhook. In a project without API keys it is the only value in the Secret of keys. */
import { randomBytes } from 'node:crypto';
import { SECRETS } from '@slipway/installation';
import type { Context, StepOutcome } from '../context.js';
import { copySecrets, restoreSecrets } from '../secret-copies.js';
import { ensureSecret } from '../secrets.js';

const { keys: names } = SECRETS;

export const newWebhookSecret = (): string => randomBytes(32).toString('base64url');

export async function ensureWebhookSecret(context: Context): Promise<StepOutcome> {
  const restored = (await restoreSecrets(context)).map((name) => `Secret ${name}, which was deleted`);
  const { before } = await ensureSecret(context, names.name, (stored) => ({
    [names.webhookSecret]: stored[names.webhookSecret] || newWebhookSecret(),
  }));
  await copySecrets(context);
  return {
    state: 'ready',
    value: undefined,
    restored: before ? restored : [...restored, `Secret ${names.name}, which was deleted`],
  };
}
