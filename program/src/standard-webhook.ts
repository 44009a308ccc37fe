/** Signs messages as Standard Webhooks specify (https://www.standardwebhooks.com). */
import { createHmac } from 'node:crypto';

export interface WebhookMessage {
  /** The same for each attempt to deliver the message. */
  id: string;
  /** Time of the attempt. */
  at: Date;
  body: string;
}

/** Returns the headers of the message, with a signature by each secret. While a secret is replaced, there are two. */
export function webhookHeaders({ id, at, body }: WebhookMessage, secrets: readonly Buffer[]): Record<string, string> {
  const timestamp = String(Math.floor(at.getTime() / 1000));
  const signatures = secrets.map((secret) => {
    const digest = createHmac('sha256', secret).update(`${id}.${timestamp}.${body}`).digest('base64');
    return `v1,${digest}`;
  });
  return {
    'content-type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatures.join(' '),
  };
}
