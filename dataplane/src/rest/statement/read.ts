/**
 * Writes a ReadNode as one SELECT: each embedded resource is a lateral join whose `body` is its JSON, so that Postgres builds
 * the whole result. Called for reads, and for what a mutation or a function returns.
 */
import { isToOne, type Pairs } from '../catalogue/relationships.js';
import { type EmbedNode, embedNamed, embedOfCondition, type ReadNode } from '../plan/read-plan.js';
import type { Condition, FieldItem, OrderTerm } from '../request/grammar.js';
import { castType } from './casts.js';
import { columnSql, fieldSql, type Scope, whereSql } from './condition.js';
import { identifier, qualified, type Writer } from './writer.js';

/** Where the rows of a node come from: written after FROM, with the conditions that tie it to the row around it. */
interface Origin {
  from: string;
  ties: string[];
}

/** `source`: a table, or the name of what was read before, under `alias`. */
export function readSql(writer: Writer, node: ReadNode, source: string, alias: string, range: string): string {
  return nodeSql(writer, node, alias, { from: `${source} as ${identifier(alias)}`, ties: [] }, [], range);
}

/** Counts what `readSql` would give without limits. */
export function countSql(writer: Writer, node: ReadNode, source: string, alias: string, limit = ''): string {
  const deciding = node.embeds.filter(
    (embed) => embed.join === 'inner' || node.conditions.some((each) => asksAbout(node, each, embed)),
  );
  const counted = { ...node, items: [], embeds: deciding.map((embed) => ({ ...embed, hidden: true })), order: [] };
  const from = `${source} as ${identifier(alias)}`;
  return `select count(*) from (${nodeSql(writer, counted, alias, { from, ties: [] }, [], limit)}) c`;
}

function asksAbout(node: ReadNode, condition: Condition, embed: EmbedNode): boolean {
  if (condition.kind === 'tree') return condition.members.some((member) => asksAbout(node, member, embed));
  return embedOfCondition(node, condition) === embed;
}

/** `extra`: columns of this node that the row around it is ordered by; they stay out of the JSON. */
function nodeSql(
  writer: Writer,
  node: ReadNode,
  alias: string,
  origin: Origin,
  extra: string[],
  range: string,
): string {
  const embeds = new Map(node.embeds.map((embed) => [embed.name, writer.alias('embed')]));
  const scope: Scope = { node, alias, embeds };
  const related = node.order.filter(({ relation }) => relation !== undefined);
  const items = [
    ...node.items.map((item) => itemSql(writer, scope, item)),
    ...node.embeds
      .filter(({ hidden }) => !hidden)
      .map((embed) => embedItemSql(embed, embeds.get(embed.name) as string)),
  ].join(', ');
  const joins = node.embeds
    .map((embed) => {
      const ordered = related.filter(({ relation }) => embedNamed(node, relation as string) === embed);
      return embedSql(writer, scope, embed, ordered);
    })
    .join('');
  const selected = extra.length === 0 ? items : `${rowJson(items)} as body, ${extra.join(', ')}`;
  const where = whereSql(writer, scope, node.conditions);
  const ties = origin.ties.length === 0 ? where : `${where ? `${where} and ` : ' where '}${origin.ties.join(' and ')}`;
  return `select ${selected} from ${origin.from}${joins}${ties}${orderSql(writer, scope)}${range}`;
}

const rowJson = (items: string) => `(select row_to_json(r) from (select ${items}) r)`;

function itemSql(writer: Writer, scope: Scope, { field, alias, cast }: FieldItem): string {
  if (field.name === '*') return columnSql(scope, '*');
  const value = fieldSql(writer, scope, field);
  const name = alias ?? [...field.path].reverse().find(({ isIndex }) => !isIndex)?.key ?? field.name;
  return `${cast === undefined ? value : `cast(${value} as ${castType(cast)})`} as ${identifier(name)}`;
}

function embedItemSql({ name, relationship, spread }: EmbedNode, alias: string): string {
  if (spread) return `${identifier(alias)}.*`;
  const body = `${identifier(alias)}.body`;
  return `${isToOne(relationship) ? body : `coalesce(${body}, '[]')`} as ${identifier(name)}`;
}

const orderColumn = (i: number) => identifier(`order_${i}`);

function embedSql(writer: Writer, scope: Scope, embed: EmbedNode, ordered: OrderTerm[]): string {
  const { node, relationship, join } = embed;
  const name = identifier(scope.embeds.get(embed.name) as string);
  const alias = writer.alias(node.name);
  const origin = originOf(writer, scope, embed, alias);
  const inner = { node, alias, embeds: new Map<string, string>() };
  const extra = ordered.map(
    ({ field }) =>
      `${fieldSql(writer, inner, field)} as ${orderColumn(scope.node.order.findIndex((term) => term.field === field))}`,
  );
  const rows = nodeSql(writer, node, alias, origin, extra, limitSql(writer, node));
  const body = isToOne(relationship) ? 'row_to_json(r)' : 'json_agg(r)';
  const lateral = embed.spread || extra.length > 0 ? rows : `select ${body} as body from (${rows}) r`;
  const on = join === 'inner' && !isToOne(relationship) ? `${name}.body is not null` : 'true';
  return ` ${join} join lateral (${lateral}) ${name} on ${on}`;
}

function originOf(writer: Writer, scope: Scope, { relationship, node }: EmbedNode, alias: string): Origin {
  const from = `${qualified(relationship.target)} as ${identifier(alias)}`;
  const equal = (left: string, right: string, pairs: Pairs) =>
    pairs.map(([own, foreign]) => `${columnSql({ alias: left }, own)} = ${columnSql({ alias: right }, foreign)}`);
  if (relationship.cardinality !== 'many-to-many') return { from, ties: equal(scope.alias, alias, relationship.pairs) };
  const junction = writer.alias(`${node.name}_${relationship.junction.name}`);
  return {
    from: `${from}, ${qualified(relationship.junction)} as ${identifier(junction)}`,
    ties: [...equal(scope.alias, junction, relationship.near.pairs), ...equal(junction, alias, relationship.far.pairs)],
  };
}

function orderSql(writer: Writer, scope: Scope): string {
  const { node, embeds } = scope;
  if (node.order.length === 0) return '';
  const terms = node.order.map(({ relation, field, direction, nulls }, i) => {
    const embed = relation === undefined ? undefined : embedNamed(node, relation);
    const value = embed
      ? `${identifier(embeds.get(embed.name) as string)}.${orderColumn(i)}`
      : fieldSql(writer, scope, field);
    return `${value}${direction ? ` ${direction}` : ''}${nulls ? ` nulls ${nulls}` : ''}`;
  });
  return ` order by ${terms.join(', ')}`;
}

function limitSql(writer: Writer, { limit, offset }: ReadNode): string {
  const limited = limit === undefined ? '' : ` limit ${limit}`;
  return `${limited}${offset === 0 ? '' : ` offset ${writer.constant(String(offset))}::bigint`}`;
}
