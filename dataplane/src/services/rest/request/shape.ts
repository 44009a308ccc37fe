/**
 * Returns the shape of a request: everything that decides its statement, without the values that become parameters. In:
 * outline, parameters and body of the request. Out: a key for the cache of compiled requests.
 */
import type { Outline } from './api-request.js';
import type { Body } from './body.js';
import { COMPARISONS, QUANTIFIABLE, TEXT_SEARCHES } from './grammar.js';
import { isFilter, isRange, type Parameters } from './query-string.js';

const OPERATORS = [
  ...Object.keys(COMPARISONS).map(
    (operator) => `${operator}${QUANTIFIABLE.has(operator) ? '(?:\\((?:any|all)\\))?' : ''}`,
  ),
  ...Object.keys(TEXT_SEARCHES).map((operator) => `${operator}(?:\\([^()]*\\))?`),
];
const OPERATOR = new RegExp(`^(?:not\\.)?(?:${OPERATORS.join('|')})\\.`, 'u');
const WHOLE: ReadonlySet<string> = new Set(['select', 'columns', 'on_conflict']);
const WHOLE_LAST: ReadonlySet<string> = new Set(['order', 'limit', 'offset', 'and', 'or']);
const SEPARATOR = '\n';
const VALUE = '\u0001';

/** Start of the varying value in a parameter of the query string; undefined: none varies. */
export function valueStart(name: string, value: string, isCall: boolean): number | undefined {
  if (WHOLE.has(name) || WHOLE_LAST.has(name.slice(name.lastIndexOf('.') + 1))) return undefined;
  if (isCall && !isFilter(name, value)) return 0;
  return OPERATOR.exec(value)?.[0].length;
}

export function shapeOf(
  outline: Outline,
  parameters: Parameters,
  body: Body | undefined,
  range: { limit: number | undefined; offset: number },
): string {
  const { method, target, schema, accept, prefer, action } = outline;
  const isCall = action === 'call';
  const name = target.kind === 'root' ? '' : target.name;
  const parts = [
    method,
    target.kind,
    name,
    schema,
    accept,
    prefer,
    range.limit === undefined ? '' : `l${range.limit}`,
    range.offset > 0 ? 'o' : '',
  ];
  for (const [key, value] of parameters) {
    if (isRange(key)) continue;
    const start = valueStart(key, value, isCall);
    parts.push(key, start === undefined ? value : value.slice(0, start) + VALUE);
  }
  if (body) parts.push(body.form, body.type, body.isUniform ? 'u' : '');
  const areColumnsNamed = parameters.some(([key]) => key === 'columns');
  if (body && !areColumnsNamed) parts.push(...body.keys.map((bodyKey) => JSON.stringify(bodyKey)));
  // Any text of a client may contain the separator; JSON's quotes keep the parts separate.
  return parts.some((part) => part.includes(SEPARATOR)) ? JSON.stringify(parts) : parts.join(SEPARATOR);
}
