/** Mails events to the owner of a project, or to an account: a burst is one mail. */
import { type AccountMail } from '../../mail/account-mail.js';
import type { Letter } from '../../mail/letters.js';
import type { DueDelivery, LeasedChannel } from '../deliveries.repository.js';
import { failed, type Sender, type Sent, skipped } from './sender.js';
import { noticeOf } from './texts.js';

const MOST = 20;
const PROJECT_PAUSE_MS = 60_000;
/** Events of accounts concern their safety. */
const ACCOUNT_PAUSE_MS = 5_000;

export type Recipient = { address: string } | { missing: string };

export function mailSender(mail: AccountMail, recipientOf: (channel: LeasedChannel) => Promise<Recipient>): Sender {
  return {
    most: MOST,
    pauseMs: ({ projectId }) => (projectId === null ? ACCOUNT_PAUSE_MS : PROJECT_PAUSE_MS),
    async send(channel, deliveries) {
      if (!mail.isConfigured) return skipped('this installation sends no mail');
      const recipient = await recipientOf(channel);
      if ('missing' in recipient) return skipped(recipient.missing);
      return deliver(mail, recipient.address, letterOf(deliveries, mail.publicUrl));
    },
  };
}

async function deliver(mail: AccountMail, address: string, letter: Letter): Promise<Sent> {
  try {
    await mail.deliver(address, letter);
    return { kind: 'delivered' };
  } catch (error) {
    // The server's text may quote addresses.
    const { code } = error as { code?: unknown };
    return failed({
      error: `the mail server did not accept the mail (${typeof code === 'string' ? code : 'no code'})`,
    });
  }
}

const OF_PROJECT = 'You own this project. To end these mails, set email_notifications to false (PATCH /projects/{id}).';
const OF_ACCOUNT =
  'If this was not you: change your password (POST /auth/password), end the sessions (DELETE /auth/sessions/{id}) ' +
  'and revoke the token (DELETE /tokens/{id}).';

export function letterOf(deliveries: readonly DueDelivery[], platform: string): Letter {
  const notices = deliveries.map((delivery) => ({ ...noticeOf(delivery), at: delivery.occurredAt }));
  const [first] = notices;
  const isOfProject = deliveries.some(({ data }) => 'project' in data);
  const parts = notices.map(({ title, facts, at }) =>
    [`${title} (${at.toISOString()})`, ...facts.map(([name, value]) => `  ${name}: ${JSON.stringify(value)}`)].join(
      '\n',
    ),
  );
  const more = notices.length > 1 ? ` and ${notices.length - 1} more` : '';
  const project = isOfProject && first?.facts[0] ? `: ${first.facts[0][1]}` : '';
  return {
    subject: `${first?.title ?? ''}${project}${more}`.slice(0, 200),
    text: `${[...parts, isOfProject ? OF_PROJECT : OF_ACCOUNT, platform].join('\n\n')}\n`,
  };
}
