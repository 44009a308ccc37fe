/**
 * Overview at `/`: the services of this installation and links to further pages, as HTML for a browser and as JSON for
 * a program. In: the settings. Out: the overview, and the page.
 */
import { DEFAULT_TYPE, PROJECT_SERVICES } from '@slipway/crds';
import { availableServices, EXAMPLE_ACCOUNT, firstCommands, SHARED_SERVICES_SETTING } from '@slipway/installation';
import Type from 'typebox';
import { Nullable } from '../http/schema.js';
import type { AccountSettings, ApiSettings } from '../settings/settings.js';

export const Overview = Type.Object(
  {
    name: Type.String({ description: 'The name of the platform.' }),
    docs: Type.String({ description: 'The page with all routes.' }),
    openapi: Type.String({ description: 'The OpenAPI document.' }),
    health: Type.String({ description: 'Answers 200 once everything serves.' }),
    projects: Nullable(Type.Integer(), {
      description: 'The number of projects. Null if other machines can reach the platform.',
    }),
    services: Type.Object(
      {
        open: Type.Array(Type.String(), { description: 'Services that shared projects have.' }),
        closed: Type.Array(Type.String(), { description: 'Services that this installation does not open to them.' }),
        opened_by: Type.String({ description: 'The setting that opens the closed ones.' }),
      },
      { description: 'Services of shared projects.' },
    ),
  },
  { $id: 'Overview', additionalProperties: false },
);
export type Overview = Type.Static<typeof Overview>;

type Known = Pick<ApiSettings, 'publicUrl' | 'openedServices' | 'site'> & {
  accounts: Pick<AccountSettings, 'localOnly'>;
};

/** `projects` is their number. Strangers do not see it: it shows how large the installation's business is. */
export function overviewOf({ publicUrl, openedServices, site, accounts }: Known, projects: number): Overview {
  const open = availableServices(DEFAULT_TYPE, 'free', openedServices);
  const closed = PROJECT_SERVICES.filter((service) => !open.includes(service));
  return {
    name: 'Slipway',
    docs: `${publicUrl}/docs`,
    openapi: `${publicUrl}/openapi.json`,
    health: `${publicUrl}/health`,
    projects: accounts.localOnly ? projects : null,
    services: {
      open: [...open],
      closed,
      opened_by: site ? 'openedServices of the site settings' : `${SHARED_SERVICES_SETTING}=all npm start`,
    },
  };
}

export const exampleOverview = overviewOf(
  { publicUrl: 'http://localhost:4000', openedServices: {}, site: undefined, accounts: { localOnly: true } },
  2,
);

/** True if the caller prefers a page: browsers name `text/html`, programs `application/json` or anything at all. */
export const wantsPage = (accept = ''): boolean => names(accept, 'text/html') && !names(accept, 'application/json');

const names = (accept: string, type: string): boolean =>
  accept.split(',').some((range) => range.split(';', 1)[0]?.trim().toLowerCase() === type);

type Shown = Pick<ApiSettings, 'publicUrl'> & { accounts: Pick<AccountSettings, 'registration' | 'localOnly'> };

/**
 * The account in the commands of the page if others can reach the page. It has no real password: others would know it,
 * and try it on accounts that were registered by pasting the commands.
 */
const placeholder = { email: 'you@example.com', password: 'your password' };

/** Styles are inline, because `page-policy.ts` allows no style file here, and no script at all. */
export function pageOf(
  { docs, openapi, health, projects, services }: Overview,
  { publicUrl, accounts }: Shown,
): string {
  const closed = `${escaped(services.closed.join(', '))}; opened by <code>${escaped(services.opened_by)}</code>`;
  const isOpen = accounts.registration.mode === 'open';
  const account = accounts.localOnly && isOpen ? EXAMPLE_ACCOUNT : placeholder;
  const commands = firstCommands({ publicUrl, account, isOpen });
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Slipway</title>
<style>
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; color: #1c2733 }
pre { background: #f2f4f7; padding: 1rem; white-space: pre-wrap; overflow-wrap: anywhere }
dt { font-weight: 600 } dd { margin: 0 0 .75rem }
@media (prefers-color-scheme: dark) {
  body { background: #14181d; color: #dfe6ee } pre { background: #20262d } a { color: #7fb4ff }
}
</style>
</head>
<body>
<main>
<h1>Slipway</h1>
<p>A backend platform runs here. Each project has a Postgres database of its own, with the open services below.</p>
<dl>
<dt>Routes</dt><dd><a href="${escaped(docs)}">${escaped(docs)}</a>, as <a href="${escaped(openapi)}">OpenAPI</a></dd>
<dt>Health</dt><dd><a href="${escaped(health)}">${escaped(health)}</a></dd>
${projects === null ? '' : `<dt>Projects</dt><dd>${projects}</dd>`}
<dt>Open services</dt><dd>${escaped(services.open.join(', '))}</dd>
${services.closed.length > 0 ? `<dt>Closed services</dt><dd>${closed}</dd>` : ''}
</dl>
<h2>A first project</h2>
<pre><code>${escaped(commands.join('\n'))}</code></pre>
<p>${isOpen ? '' : 'Registration is not open: an administrator invites you. '}The last command responds with the
project’s <code>id</code>, which <code>GET /projects</code> lists too. Once the project is healthy,
<code>GET /projects/{id}</code> shows its URL and keys.</p>
</main>
</body>
</html>
`;
}

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const escaped = (text: string) => text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] as string);
