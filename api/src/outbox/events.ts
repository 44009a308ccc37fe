/**
 * Events that owners are notified of. Webhooks receive their data, so it has no secrets. Its text is hostile wherever
 * it is shown.
 */

export const PROJECT_EVENTS = [
  'project.healthy',
  'project.failing',
  'project.recovered',
  'deploy.succeeded',
  'deploy.failed',
  'quota.warning',
  'quota.exceeded',
  'form.received',
] as const;
export type ProjectEvent = (typeof PROJECT_EVENTS)[number];

export type AccountEvent = 'account.signed_in' | 'account.token_created';

/** Sent by `POST /projects/{id}/notifications/test` to every channel. */
export const TEST_EVENT = 'notification.test';

export type EventType = ProjectEvent | AccountEvent | typeof TEST_EVENT;

export interface NewEvent {
  /** Names the object and its transition. An event whose key is known is not added again. */
  key: string;
  type: EventType;
  at: Date;
  data: Record<string, unknown>;
  /** True for an event that is added once by its nature: without a channel that receives it, nothing is stored. */
  isOnlyForChannels?: boolean;
}

/** Types whose number a stranger decides. Only the newest of a project are kept, as their keys never come again. */
export const UNBOUNDED_EVENTS: readonly EventType[] = ['form.received', TEST_EVENT];

/** Channels of a project besides its webhooks. */
export interface WantedChannels {
  mail: boolean;
  slack: boolean;
}
