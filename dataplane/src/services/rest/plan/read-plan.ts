/**
 * Resolves a read with the catalogue: the relationships of embedded resources, and the filters, order and limits of
 * each resource. In: the parsed query. Out: a tree of ReadNodes for the statement stage.
 */
import type { Catalogue, Table } from '../catalogue/catalogue.js';
import { isToOne, type Relationship } from '../catalogue/relationships.js';
import { aggregatesNotAllowed, notImplemented, RestError } from '../errors.js';
import type { At, Condition, EmbedItem, FieldItem, OrderTerm, QueryString } from '../request/grammar.js';
import { findRelationship } from './embedding.js';

export interface ReadNode {
  /** Undefined for the result of a function without a table. */
  table: Table | undefined;
  name: string;
  items: FieldItem[];
  embeds: EmbedNode[];
  conditions: Condition[];
  order: OrderTerm[];
  limit: number | undefined;
  offset: number;
  /** True if its rows, or those of a resource spread into it, are aggregated: other columns are then grouped by. */
  isGrouped: boolean;
}

export interface EmbedNode {
  /** Name of the embedded resource in the request and in the result. */
  name: string;
  relationship: Relationship;
  join: 'inner' | 'left';
  spread: boolean;
  /** True for `rel()`: joined, but not in the result. */
  hidden: boolean;
  node: ReadNode;
}

/** Source of rows: a table, or a function, whose result may be a table's. */
export type Origin = Pick<ReadNode, 'table' | 'name'> & { schema: string };

export function planRead(catalogue: Catalogue, origin: Origin, query: QueryString): ReadNode {
  const root = nodeOf(catalogue, origin, query.select, false);
  if (!catalogue.settings.aggregates && root.items.some(({ aggregate }) => aggregate)) throw aggregatesNotAllowed();
  each(query.conditions, root, (node, condition) => node.conditions.push(condition));
  each(query.order, root, (node, terms) => {
    for (const term of terms) if (term.relation !== undefined) requireToOne(node, term.relation);
    node.order.push(...terms);
  });
  each(query.limits, root, (node, { limit, offset }) => {
    node.limit = atMost(limit, catalogue.settings.maxRows);
    node.offset = offset;
  });
  checkEmbedFilters(root);
  return root;
}

/** `spread`: into another node, which then aggregates. */
function nodeOf(catalogue: Catalogue, origin: Origin, select: QueryString['select'], spread: boolean): ReadNode {
  const { table, name } = origin;
  const embeds = select
    .filter((item): item is EmbedItem => item.kind === 'embed')
    .map((item) => embedOf(catalogue, origin, item));
  const items = select.filter((item): item is FieldItem => item.kind === 'field');
  const isGrouped = !spread && (items.some(({ aggregate }) => aggregate) || embeds.some(bringsAggregates));
  const node = { table, name, items, embeds, conditions: [], order: [], limit: undefined, offset: 0, isGrouped };
  return isGrouped || (table?.isRepresented ?? false) ? { ...node, items: expanded(node) } : node;
}

/** True if a spread resource adds aggregates to the other: of its own columns, or of those spread into it. */
const bringsAggregates = ({ spread, node }: EmbedNode): boolean =>
  spread && (node.items.some(({ aggregate }) => aggregate) || node.embeds.some(bringsAggregates));

/** Expands `*` into columns, to group by them, or to apply their domain representations. */
function expanded({ items, table }: ReadNode): FieldItem[] {
  return items.flatMap((item) => {
    if (item.field.name !== '*' || item.aggregate || !table) return [item];
    return [...table.columns.keys()].map((name) => ({ ...item, field: { name, path: [] } }));
  });
}

function embedOf(catalogue: Catalogue, { schema, name, table }: Origin, item: EmbedItem): EmbedNode {
  const sought = { origin: table?.name ?? name, schema, table, target: item.relation, hint: item.hint };
  const relationship = findRelationship(catalogue, sought);
  const { target } = relationship;
  const targetTable = catalogue.table(target.schema, target.name);
  const spread = item.spread && isToOne(relationship);
  const node = nodeOf(catalogue, { ...target, table: targetTable }, item.select, spread);
  if (!isToOne(relationship)) node.limit = catalogue.settings.maxRows;
  if (item.spread && !spread && node.isGrouped)
    throw notImplemented('Aggregates are not implemented for one-to-many or many-to-many spreads.');
  if (!catalogue.settings.aggregates && node.items.some(({ aggregate }) => aggregate)) throw aggregatesNotAllowed();
  return {
    name: item.alias ?? item.relation,
    relationship,
    join: item.join,
    spread: item.spread,
    hidden: item.select.length === 0,
    node: item.spread && !spread ? { ...node, items: expanded(node) } : node,
  };
}

const atMost = (limit: number | undefined, most: number | undefined) =>
  limit === undefined || most === undefined ? (limit ?? most) : Math.min(limit, most);

function each<T>(parts: At<T>[], root: ReadNode, apply: (node: ReadNode, value: T) => void): void {
  for (const { path, value } of parts) {
    let node = root;
    for (const name of path) node = embedNamed(node, name).node;
    apply(node, value);
  }
}

export function embedNamed(node: ReadNode, name: string): EmbedNode {
  const embed =
    node.embeds.find((embed) => embed.name === name) ?? node.embeds.find((embed) => embed.node.name === name);
  if (embed) return embed;
  throw new RestError(400, 'PGRST108', `'${name}' is not an embedded resource in this request`, {
    hint: `Verify that '${name}' is included in the 'select' query parameter.`,
  });
}

function requireToOne(node: ReadNode, name: string): void {
  const embed = embedNamed(node, name);
  if (isToOne(embed.relationship)) return;
  throw new RestError(400, 'PGRST118', `A related order on '${name}' is not possible`, {
    details: `'${node.name}' and '${name}' do not form a many-to-one or one-to-one relationship`,
  });
}

/** Returns the embedded resource of a null filter on it, `rel=is.null`. */
export function embedOfCondition(node: ReadNode, condition: Condition): EmbedNode | undefined {
  if (condition.kind !== 'filter' || condition.field.path.length > 0 || node.table?.columns.has(condition.field.name))
    return undefined;
  return node.embeds.find(({ name }) => name === condition.field.name);
}

function checkEmbedFilters(node: ReadNode): void {
  const check = (condition: Condition): void => {
    if (condition.kind === 'tree') return condition.members.forEach(check);
    const embed = embedOfCondition(node, condition);
    if (embed && !(condition.operation.kind === 'is' && /null/.test(condition.operation.value)))
      throw new RestError(400, 'PGRST120', `Bad operator on the '${embed.name}' embedded resource`, {
        details: 'Only is null or not is null filters are allowed on embedded resources',
      });
  };
  node.conditions.forEach(check);
  for (const embed of node.embeds) checkEmbedFilters(embed.node);
}
