/**
 * Generates the table of a site's settings in docs/cluster.md from the schema with which the programs check them.
 * Called by `generate.ts` and its test.
 */
import { PLANS } from '@slipway/crds';
import { Site } from '@slipway/installation';

interface Schema {
  type?: string;
  description?: string;
  default?: unknown;
  enum?: string[];
  properties?: Record<string, Schema>;
  required?: string[];
}

const BEGIN = '<!-- The table below is generated from installation/src/site.ts by `npm run generate`. -->\n';
const END = '<!-- End of the generated table. -->';

/** Returns the page with the current table. */
export function withSettingsTable(page: string): string {
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from === -1 || to < from) throw new Error(`the page has no lines ${BEGIN.trim()} and ${END}`);
  return page.slice(0, from) + BEGIN + settingsTable() + page.slice(to);
}

function settingsTable(): string {
  const rows = rowsOf(Site as unknown as Schema, '').map((cells) => `| ${cells.join(' | ')} |\n`);
  return `| setting | default | meaning |\n| --- | --- | --- |\n${rows.join('')}`;
}

/** `isThere`: whether the object of these settings exists by default. */
function rowsOf({ properties = {}, required = [] }: Schema, path: string, isThere = true): string[][] {
  return Object.entries(properties).flatMap(([name, field]) => {
    if (path === 'plans.') return name === PLANS[0] ? rowsOf(field, 'plans.*plan*.') : [];
    const isNeeded = required.includes(name) && field.default === undefined;
    if (field.properties) return rowsOf(field, `${path}${name}.`, required.includes(name));
    const needed = isThere ? '**must be set**' : `must be set where \`${path.slice(0, -1)}\` is`;
    return [[code(path + name), isNeeded ? needed : defaultOf(path + name, field), meaningOf(field)]];
  });
}

/** A part in asterisks stands for any name. */
const code = (path: string) => `\`${path.replace('*plan*', '<plan>')}\``;

function defaultOf(path: string, field: Schema): string {
  if (path.endsWith('.ownDatabase')) return ownDatabaseDefaults();
  if (field.default === undefined) return '';
  const text = typeof field.default === 'string' ? field.default : JSON.stringify(field.default);
  return `\`${text}\``;
}

function ownDatabaseDefaults(): string {
  const plans = (Site as unknown as { properties: { plans: Schema } }).properties.plans.properties ?? {};
  const without = PLANS.filter((plan) => plans[plan]?.properties?.ownDatabase?.default === false);
  return `\`true\`; ${without.join(', ')}: \`false\``;
}

function meaningOf({ description = '', enum: values }: Schema): string {
  const undescribed = (values ?? []).filter((value) => !description.includes(value));
  const choice = undescribed.length > 0 ? ` One of ${(values ?? []).map((value) => `\`${value}\``).join(', ')}.` : '';
  return `${description}${choice}`.replaceAll('<', '&lt;').replaceAll('|', '\\|');
}
