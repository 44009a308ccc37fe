/**
 * The grammar of `select=`: columns with aliases, casts and aggregates, and embedded resources with hints and joins.
 */
import { AGGREGATES, type Aggregate, type EmbedItem, type FieldItem, type SelectItem } from './grammar.js';
import { Scanner } from './scanner.js';

const AGGREGATE = new RegExp(`(?:${AGGREGATES.join('|')})\\(\\)`, 'y');

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
  const item = scanner.take('...') || scanner.take('..') ? embed(scanner, undefined, true) : aliased(scanner);
  scanner.space();
  return item;
}

function aliased(scanner: Scanner): SelectItem {
  if (scanner.take('*')) return everything();
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

const everything = (alias?: string, aggregate?: Aggregate): FieldItem => ({
  kind: 'field',
  field: { name: '*', path: [] },
  alias,
  cast: undefined,
  aggregate,
});

const castOf = (scanner: Scanner) => (scanner.take('::') ? scanner.name('letter or digit') : undefined);

function column(scanner: Scanner, alias: string | undefined): FieldItem {
  const counted = isCount(scanner) ? aggregateOf(scanner) : undefined;
  const item = counted ? everything(alias, counted) : plainColumn(scanner, alias);
  if (!scanner.ended && !scanner.sees(',') && !scanner.sees(')'))
    scanner.fail('letter, digit, "-", "->>", "->", "::", ")", "," or end of input');
  return item;
}

function plainColumn(scanner: Scanner, alias: string | undefined): FieldItem {
  const field = scanner.field();
  const cast = castOf(scanner);
  const aggregate = scanner.attempt(() => (scanner.take('.') ? aggregateOf(scanner) : undefined));
  return { kind: 'field', field, alias, cast, aggregate };
}

function aggregateOf(scanner: Scanner): Aggregate | undefined {
  const name = scanner.match(AGGREGATE)?.slice(0, -2);
  return name === undefined ? undefined : { name: name as Aggregate['name'], cast: castOf(scanner) };
}

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
