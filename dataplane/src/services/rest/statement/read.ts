/**
 * Writes a ReadNode as one SELECT. Each embedded resource is a lateral join whose `body` is its JSON, so that Postgres
 * builds the whole result. Used for reads, and for the results of mutations and functions.
 */
import { isComputed, isToOne, type Pairs } from '../catalogue/relationships.js';
import { notImplemented } from '../errors.js';
import { type EmbedNode, embedNamed, embedOfCondition, type ReadNode } from '../plan/read-plan.js';
import type { Condition, OrderTerm } from '../request/grammar.js';
import { columnSql, FOUND, fieldSql, type Scope, whereSql } from './condition.js';
import { type Output, Selection } from './selection.js';
import { identifier, qualified, type Writer } from './writer.js';

/** Source of a node's rows: its FROM clause, with the conditions that join it to the outer row. */
interface Origin {
  alias: string;
  from: string;
  ties: string[];
}

/** Returns a table, or the name of an earlier result, under an alias. */
interface Source {
  source: string;
  alias: string;
}

export function readSql(writer: Writer, node: ReadNode, source: Source, range: string): string {
  return nodeSql(writer, node, wholeOf(source), { extra: [], range, spread: false }).sql;
}

const wholeOf = ({ source, alias }: Source): Origin => ({
  alias,
  from: `${source} as ${identifier(alias)}`,
  ties: [],
});

/** Counts the rows of `readSql` without limits. */
export function countSql(writer: Writer, node: ReadNode, source: Source, limit = ''): string {
  const conditioned = new Set(node.conditions.flatMap((each) => askedAbout(node, each)));
  const deciding = node.embeds.filter((embed) => embed.join === 'inner' || conditioned.has(embed));
  const embeds = deciding.map((embed) => ({ ...embed, hidden: true }));
  const counted = { ...node, items: [], embeds, order: [], isGrouped: false };
  const { sql } = nodeSql(writer, counted, wholeOf(source), { extra: [], range: limit, spread: false });
  return `select count(*) from (${sql}) c`;
}

function askedAbout(node: ReadNode, condition: Condition): EmbedNode[] {
  if (condition.kind === 'tree') return condition.members.flatMap((member) => askedAbout(node, member));
  const embed = embedOfCondition(node, condition);
  return embed ? [embed] : [];
}

interface Rows {
  sql: string;
  outputs: Output[];
}

interface Form {
  /** Columns by which the outer row is ordered; they are not in the JSON. */
  extra: string[];
  range: string;
  /** True if spread into the outer row. */
  spread: boolean;
}

function nodeSql(writer: Writer, node: ReadNode, origin: Origin, { extra, range, spread }: Form): Rows {
  const { alias } = origin;
  const embeds = new Map(node.embeds.map((embed) => [embed.name, writer.alias('embed')]));
  const scope: Scope = { node, alias, embeds };
  const selection = new Selection(writer, scope, spread);
  for (const item of node.items) selection.addItem(item);
  const ordered = relatedOrder(node);
  let joins = '';
  for (const embed of node.embeds) {
    const { sql, outputs } = embedSql(writer, scope, embed, ordered.get(embed) ?? []);
    joins += sql;
    if (!embed.hidden) selection.addEmbed(embed, embeds.get(embed.name) as string, outputs);
  }
  if (extra.length > 0 && node.isGrouped)
    throw notImplemented(`Ordering by '${node.name}' while it is aggregated is not implemented`);
  const items = [...selection.columns, ...(spread ? [...extra, `true as ${FOUND}`] : [])].join(', ');
  const selected = extra.length === 0 || spread ? items : `${rowJson(items)} as body, ${extra.join(', ')}`;
  const where = whereSql(writer, scope, node.conditions);
  const ties = origin.ties.length === 0 ? where : `${where ? `${where} and ` : ' where '}${origin.ties.join(' and ')}`;
  const order = orderTerms(writer, scope);
  const grouped = node.isGrouped ? selection.groupBy(order.filter(({ isRelated }) => isRelated)) : '';
  const sql = `select ${selected} from ${origin.from}${joins}${ties}${grouped}${orderSql(order)}${range}`;
  return { sql, outputs: selection.outputs };
}

/** Returns the order by columns of embedded resources. */
function relatedOrder(node: ReadNode): Map<EmbedNode, OrderTerm[]> {
  const ordered = new Map<EmbedNode, OrderTerm[]>();
  for (const term of node.order) {
    if (term.relation === undefined) continue;
    const embed = embedNamed(node, term.relation);
    ordered.set(embed, [...(ordered.get(embed) ?? []), term]);
  }
  return ordered;
}

const rowJson = (items: string) => `(select row_to_json(r) from (select ${items}) r)`;

const orderColumn = (i: number) => identifier(`order_${i}`);

function embedSql(writer: Writer, scope: Scope, embed: EmbedNode, ordered: OrderTerm[]): Rows {
  const { node, relationship, join, spread } = embed;
  const name = identifier(scope.embeds.get(embed.name) as string);
  const alias = writer.alias(node.name);
  const origin = originOf(writer, scope, embed, alias);
  const inner = { node, alias, embeds: new Map<string, string>() };
  const extra = ordered.map(
    ({ field }) =>
      `${fieldSql(writer, inner, field)} as ${orderColumn(scope.node.order.findIndex((term) => term.field === field))}`,
  );
  const toOne = isToOne(relationship);
  const rows = nodeSql(writer, node, origin, { extra, range: limitSql(writer, node), spread: spread && toOne });
  const on = join === 'inner' && !toOne ? `${name}.${spread ? FOUND : 'body'} is not null` : 'true';
  return { sql: ` ${join} join lateral (${lateralSql(embed, rows, extra)}) ${name} on ${on}`, outputs: rows.outputs };
}

function lateralSql({ spread, relationship }: EmbedNode, { sql, outputs }: Rows, extra: string[]): string {
  const toOne = isToOne(relationship);
  if (toOne) return spread || extra.length > 0 ? sql : `select row_to_json(r) as body from (${sql}) r`;
  if (!spread) return `select json_agg(r) as body from (${sql}) r`;
  const lists = outputs.map(({ name }) => `json_agg(r.${identifier(name)}) as ${identifier(name)}`);
  return `select ${[...lists, `case when count(*) > 0 then true end as ${FOUND}`].join(', ')} from (${sql}) r`;
}

function originOf(writer: Writer, scope: Scope, { relationship, node }: EmbedNode, alias: string): Origin {
  if (isComputed(relationship)) {
    const row = `${identifier(scope.alias)}::${qualified(relationship.origin)}`;
    return { alias, from: `${qualified(relationship.routine)}(${row}) as ${identifier(alias)}`, ties: [] };
  }
  const from = `${qualified(relationship.target)} as ${identifier(alias)}`;
  const equal = (left: string, right: string, pairs: Pairs) =>
    pairs.map(([own, foreign]) => `${columnSql({ alias: left }, own)} = ${columnSql({ alias: right }, foreign)}`);
  if (relationship.cardinality !== 'many-to-many')
    return { alias, from, ties: equal(scope.alias, alias, relationship.pairs) };
  const junction = writer.alias(`${node.name}_${relationship.junction.name}`);
  return {
    alias,
    from: `${from}, ${qualified(relationship.junction)} as ${identifier(junction)}`,
    ties: [...equal(scope.alias, junction, relationship.near.pairs), ...equal(junction, alias, relationship.far.pairs)],
  };
}

interface OrderSql {
  value: string;
  suffix: string;
  isRelated: boolean;
}

function orderTerms(writer: Writer, scope: Scope): OrderSql[] {
  const { node, embeds } = scope;
  return node.order.map(({ relation, field, direction, nulls }, i) => {
    const embed = relation === undefined ? undefined : embedNamed(node, relation);
    const value = embed
      ? `${identifier(embeds.get(embed.name) as string)}.${orderColumn(i)}`
      : fieldSql(writer, scope, field);
    const suffix = `${direction ? ` ${direction}` : ''}${nulls ? ` nulls ${nulls}` : ''}`;
    return { value, suffix, isRelated: embed !== undefined };
  });
}

const orderSql = (terms: OrderSql[]) =>
  terms.length === 0 ? '' : ` order by ${terms.map(({ value, suffix }) => `${value}${suffix}`).join(', ')}`;

function limitSql(writer: Writer, { limit, offset }: ReadNode): string {
  const limited = limit === undefined ? '' : ` limit ${limit}`;
  return `${limited}${offset === 0 ? '' : ` offset ${writer.constant(String(offset))}::bigint`}`;
}
