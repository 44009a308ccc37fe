/** The channels besides webhooks that a project's settings choose. */
import type { SeenProject } from '../kubernetes/project-cache.js';
import type { ApiSettings } from '../settings/settings.js';
import type { WantedChannels } from './events.js';

export const wantedChannels = ({ spec: { notifications } }: SeenProject, { mail }: ApiSettings): WantedChannels => ({
  mail: notifications?.email === true && mail !== undefined,
  slack: notifications?.slackWebhookSecretRef !== undefined,
});
