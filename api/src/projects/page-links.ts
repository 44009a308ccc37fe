import type { ProjectQuery } from './project.schema.js';

/**
 * Returns the `Link` header (RFC 8288) of a page; undefined if there is only one. Relative, so it works behind any
 * proxy.
 */
export function pageLinks({ limit, offset = 0, ...filter }: ProjectQuery, total: number): string | undefined {
  if (limit === undefined) return undefined;
  const last = Math.max(0, Math.ceil(total / limit) - 1) * limit;
  const pages: [string, number][] = [['first', 0]];
  if (offset > 0) pages.push(['prev', Math.max(0, Math.min(offset - limit, last))]);
  if (offset + limit < total) pages.push(['next', offset + limit]);
  pages.push(['last', last]);
  const query = (start: number) => new URLSearchParams({ ...filter, limit: String(limit), offset: String(start) });
  return pages.map(([rel, start]) => `</projects?${query(start)}>; rel="${rel}"`).join(', ');
}
