/** The representations that this service can give, chosen by the Accept header. */
import { RestError } from '../errors.js';

export type Media = 'array' | 'object' | 'csv' | 'openapi';

export interface Representation {
  media: Media;
  stripNulls: boolean;
}

const JSON_UTF8 = 'application/json; charset=utf-8';

export function contentType({ media, stripNulls }: Representation): string {
  if (media === 'csv') return 'text/csv; charset=utf-8';
  if (media === 'openapi') return 'application/openapi+json; charset=utf-8';
  const nulls = stripNulls ? '; nulls=stripped' : '';
  if (media === 'object') return `application/vnd.pgrst.object+json${nulls}; charset=utf-8`;
  return stripNulls ? `application/vnd.pgrst.array+json${nulls}; charset=utf-8` : JSON_UTF8;
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

export function negotiate(accept: string, isRoot: boolean): Representation {
  const offers = isRoot ? { ...MEDIA, 'application/openapi+json': 'openapi' as const } : MEDIA;
  const wanted = accept
    .split(',')
    .map(parseRange)
    .sort((one, other) => other.quality - one.quality);
  for (const { type, stripNulls } of wanted) {
    const media = Object.hasOwn(offers, type) ? (offers as Record<string, Media>)[type] : undefined;
    if (media) return { media, stripNulls };
  }
  throw new RestError(
    406,
    'PGRST107',
    `None of these media types are available: ${wanted.map(({ type }) => type).join(', ')}`,
  );
}

function parseRange(range: string) {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
  const quality = parameters.find((parameter) => parameter.startsWith('q='));
  return {
    type,
    stripNulls: parameters.includes('nulls=stripped'),
    quality: quality ? Number(quality.slice(2)) || 0 : 1,
  };
}
