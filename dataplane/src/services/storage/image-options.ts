/** Options of image transformations: width, height, resize mode, quality and format, each within limits. */
import { invalidRequest } from './errors.js';

export interface ImageOptions {
  width: number | undefined;
  height: number | undefined;
  resize: 'cover' | 'contain' | 'fill';
  quality: number;
  /** `origin`: the stored format. Default: the best one that the client accepts. */
  format: 'origin' | undefined;
}

export const LARGEST_SIDE = 2500;
const RESIZES = ['cover', 'contain', 'fill'] as const;

export function imageOptions(query: URLSearchParams): ImageOptions {
  const resize = RESIZES.find((known) => known === (query.get('resize') ?? 'cover'));
  if (!resize) throw invalidRequest(`resize must be one of ${RESIZES.join(', ')}`);
  const format = query.get('format') ?? undefined;
  if (format !== undefined && format !== 'origin') throw invalidRequest('format must be origin');
  return {
    width: whole(query, 'width', 1, LARGEST_SIDE),
    height: whole(query, 'height', 1, LARGEST_SIDE),
    resize,
    quality: whole(query, 'quality', 20, 100) ?? 80,
    format,
  };
}

function whole(query: URLSearchParams, name: string, least: number, most: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (value < least || value > most) throw invalidRequest(`${name} must be an integer from ${least} to ${most}`);
  return value;
}

/** Returns the checked image options of a signed URL as a query; empty without options. */
export function transformText(transform: unknown): string {
  if (typeof transform !== 'object' || transform === null) return '';
  const query = new URLSearchParams();
  for (const name of ['width', 'height', 'resize', 'quality', 'format'] as const) {
    const value = (transform as Record<string, unknown>)[name];
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  if (query.size > 0) imageOptions(query);
  return query.toString();
}
