/** Delivers events to a Slack webhook: as blocks, and as a text where blocks are not shown. A burst is one message. */
import type { Outbound } from '@slipway/program/outbound.js';
import type { DueDelivery, LeasedChannel } from '../deliveries.repository.js';
import { post } from './post.js';
import { failed, type Sender, skipped } from './sender.js';
import { noticeOf } from './texts.js';

/** Slack accepts 50 blocks in a message. */
const MOST = 20;
/** Slack accepts about one message a second. */
const PAUSE_MS = 5_000;
/** Slack answers so for a webhook or a channel that was removed. */
const GONE = [404, 410];
/** Characters of a text in a block that Slack accepts. */
const MOST_OF_TEXT = 3_000;

export function slackSender(
  outbound: Outbound,
  urlOf: (channel: LeasedChannel) => Promise<string | undefined>,
): Sender {
  return {
    most: MOST,
    pauseMs: () => PAUSE_MS,
    async send(channel, deliveries) {
      const url = await urlOf(channel);
      if (url === undefined) return skipped('slack_webhook is not set');
      if (!URL.canParse(url) || new URL(url).protocol !== 'https:') return failed({ error: 'slack_webhook is no URL' });
      const body = JSON.stringify(messageOf(deliveries));
      return post(outbound, { url, headers: { 'content-type': 'application/json' }, body, gone: GONE });
    },
  };
}

export function messageOf(deliveries: readonly Pick<DueDelivery, 'type' | 'data'>[]) {
  const notices = deliveries.map(noticeOf);
  const titles = notices.map(({ title, facts }) => `${title}${facts[0] ? `: ${facts[0][1]}` : ''}`);
  return {
    text: titles.map(escaped).join('\n').slice(0, MOST_OF_TEXT),
    blocks: notices.map(({ title, facts }) => ({
      type: 'section',
      text: {
        type: 'mrkdwn',
        text: [`*${escaped(title)}*`, ...facts.map(([name, value]) => `${escaped(name)}: ${escaped(value)}`)]
          .join('\n')
          .slice(0, MOST_OF_TEXT),
      },
    })),
    unfurl_links: false,
    unfurl_media: false,
  };
}

/**
 * These three characters begin links and mentions, such as `<!channel>`
 * (https://docs.slack.dev/messaging/formatting-message-text). A zero-width space keeps others from formatting.
 */
const escaped = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll(/[*_~`@#]/g, (character) => `\u200b${character}`);
