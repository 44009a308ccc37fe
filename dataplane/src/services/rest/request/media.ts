/** Representations that this service can return, chosen by the Accept header. */
import { RestError } from '../errors.js';

export type Media = 'array' | 'object' | 'csv' | 'openapi' | 'custom' | 'plan';

/** Media type of a project's own aggregate or function. */
export interface CustomMedia {
  type: string;
  isBytes: boolean;
  /** Undefined: the function's result itself. */
  aggregate: { schema: string; name: string; isOfTable: boolean } | undefined;
}

export interface Plan {
  format: 'json' | 'text';
  options: readonly string[];
}

export interface Representation {
  media: Media;
  stripNulls: boolean;
  custom?: CustomMedia;
  /** Set if the query plan of this representation is requested. */
  plan?: Plan;
}

/** Media types that this request can also return, besides the standard ones. */
export interface Offers {
  root?: boolean;
  plan?: boolean;
  custom?: (type: string) => CustomMedia | undefined;
}

const JSON_UTF8 = 'application/json; charset=utf-8';

export function contentType({ media, stripNulls, custom, plan }: Representation): string {
  if (plan) return planType(plan, contentType({ media, stripNulls, ...(custom ? { custom } : {}) }));
  if (custom) return custom.type;
  if (media === 'csv') return 'text/csv; charset=utf-8';
  if (media === 'openapi') return 'application/openapi+json; charset=utf-8';
  const nulls = stripNulls ? '; nulls=stripped' : '';
  if (media === 'object') return `application/vnd.pgrst.object+json${nulls}; charset=utf-8`;
  return stripNulls ? `application/vnd.pgrst.array+json${nulls}; charset=utf-8` : JSON_UTF8;
}

function planType({ format, options }: Plan, of: string): string {
  const chosen = options.length > 0 ? `; options=${options.join('|')}` : '';
  return `application/vnd.pgrst.plan+${format}; for="${of.replace('; charset=utf-8', '')}"${chosen}; charset=utf-8`;
}

const MEDIA: Record<string, Media> = {
  '*/*': 'array',
  'application/*': 'array',
  'application/json': 'array',
  'application/vnd.pgrst.array+json': 'array',
  'application/vnd.pgrst.array': 'array',
  'application/vnd.pgrst.object+json': 'object',
  'application/vnd.pgrst.object': 'object',
  'text/csv': 'csv',
  'text/*': 'csv',
};

const PLAN = /^application\/vnd\.pgrst\.plan(?:\+(json|text))?$/;
const PLAN_OPTIONS: readonly string[] = ['analyze', 'verbose', 'settings', 'buffers', 'wal'];

export function negotiate(accept: string, offers: Offers): Representation {
  const wanted = accept
    .split(',')
    .map(parseRange)
    .sort((one, other) => other.quality - one.quality);
  for (const range of wanted) {
    const representation = offered(range.type, range.parameters, offers);
    if (representation) return representation;
  }
  throw new RestError(
    406,
    'PGRST107',
    `None of these media types are available: ${wanted.map(({ type }) => type).join(', ')}`,
  );
}

function offered(type: string, parameters: string[], offers: Offers): Representation | undefined {
  const custom = offers.custom?.(type);
  if (custom) return { media: 'custom', stripNulls: false, custom };
  if (offers.root && type === 'application/openapi+json') return { media: 'openapi', stripNulls: false };
  const plan = offers.plan ? PLAN.exec(type) : null;
  if (plan) return planned(plan[1] === 'json' ? 'json' : 'text', parameters, offers);
  const media = Object.hasOwn(MEDIA, type) ? MEDIA[type] : undefined;
  return media && { media, stripNulls: parameters.includes('nulls=stripped') };
}

function planned(format: Plan['format'], parameters: string[], offers: Offers): Representation | undefined {
  const value = (name: string) =>
    parameters.find((parameter) => parameter.startsWith(`${name}=`))?.slice(name.length + 1);
  const options = (value('options') ?? '').split('|').filter((option) => PLAN_OPTIONS.includes(option));
  const of = value('for')?.replaceAll('"', '') ?? 'application/json';
  const explained = offered(of, parameters, { ...offers, plan: false });
  return explained && { ...explained, plan: { format, options } };
}

function parseRange(range: string) {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith('q='));
  return { type, parameters, quality: quality ? Number(quality.slice(2)) || 0 : 1 };
}
