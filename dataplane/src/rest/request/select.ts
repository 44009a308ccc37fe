/** The grammar of `select`: columns with casts, aliases and JSON paths, and embedded resources. */
import { RestError } from '../errors.js';
import type { EmbedItem, FieldItem, SelectItem } from './grammar.js';
import { Scanner } from './scanner.js';

const AGGREGATE = /(?:\.(?:avg|count|max|min|sum))\(\)/y;

export function parseSelect(text: string): SelectItem[] {
  const scanner = new Scanner(text, 'select parameter');
  const items = selectList(scanner);
  if (!scanner.ended) scanner.fail('"," or end of input');
  return items;
}

function selectList(scanner: Scanner): SelectItem[] {
  scanner.space();
  if (scanner.ended || scanner.sees(')')) return [];
  return scanner.list(() => selectItem(scanner));
}

function selectItem(scanner: Scanner): SelectItem {
  const item = scanner.take('...') ? embed(scanner, undefined, true) : aliased(scanner);
  scanner.space();
  return item;
}

function aliased(scanner: Scanner): SelectItem {
  if (scanner.take('*')) return { kind: 'field', field: { name: '*', path: [] }, alias: undefined, cast: undefined };
  const alias = scanner.attempt(() => {
    const name = scanner.optionalName();
    return name !== undefined && !scanner.sees('::') && scanner.take(':') ? name : undefined;
  });
  scanner.space();
  if (!isCount(scanner) && isEmbed(scanner)) return embed(scanner, alias, false);
  return column(scanner, alias);
}

function isEmbed(scanner: Scanner): boolean {
  const begin = scanner.at;
  scanner.optionalName();
  const yes = scanner.sees('!') || scanner.sees('(');
  scanner.at = begin;
  return yes;
}

const isCount = (scanner: Scanner) => scanner.sees('count()');

function column(scanner: Scanner, alias: string | undefined): FieldItem {
  if (isCount(scanner)) throw aggregatesNotAllowed();
  const field = scanner.field();
  const cast = scanner.take('::') ? scanner.name('letter or digit') : undefined;
  if (scanner.match(AGGREGATE)) throw aggregatesNotAllowed();
  if (!scanner.ended && !scanner.sees(',') && !scanner.sees(')'))
    scanner.fail('letter, digit, "-", "->>", "->", "::", ")", "," or end of input');
  return { kind: 'field', field, alias, cast };
}

const aggregatesNotAllowed = () => new RestError(400, 'PGRST123', 'Use of aggregate functions is not allowed');

function embed(scanner: Scanner, alias: string | undefined, spread: boolean): EmbedItem {
  const relation = scanner.name();
  let hint: string | undefined;
  let join: EmbedItem['join'] = 'left';
  while (scanner.take('!')) {
    const word = scanner.name();
    if (word === 'inner' || word === 'left') join = word;
    else hint = word;
  }
  scanner.expect('(');
  const select = scanner.nested(() => selectList(scanner));
  scanner.expect(')');
  return { kind: 'embed', relation, alias, hint, join, spread, select };
}
