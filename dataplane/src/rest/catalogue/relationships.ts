/**
 * How tables and views relate, derived from foreign keys: each is seen from both of its ends, also through views, and a
 * table between two makes many-to-many. Functions of a row to rows of another table override them.
 */
import type { ComputedRow, RelationRow } from './catalogue.js';
import type { KeyRow, ViewKeys } from './keys.js';

export interface TableName {
  schema: string;
  name: string;
}

/** Pairs of columns that are equal in related rows. */
export type Pairs = [own: string, foreign: string][];

interface Common {
  target: TableName;
  targetIsView: boolean;
  /** From a table to itself. */
  isSelf: boolean;
}

export interface KeyRelationship extends Common {
  cardinality: 'many-to-one' | 'one-to-many' | 'one-to-one';
  constraint: string;
  pairs: Pairs;
}

export interface JunctionRelationship extends Common {
  cardinality: 'many-to-many';
  junction: TableName;
  near: { constraint: string; pairs: Pairs };
  /** From the junction to the target. */
  far: { constraint: string; pairs: Pairs };
}

export interface ComputedRelationship extends Common {
  cardinality: 'computed-one' | 'computed-many';
  routine: TableName;
  /** The table whose row the function takes. */
  origin: TableName;
}

export type Relationship = KeyRelationship | JunctionRelationship | ComputedRelationship;

const TO_ONE: ReadonlySet<string> = new Set(['many-to-one', 'one-to-one', 'computed-one']);

export const isToOne = ({ cardinality }: Relationship) => TO_ONE.has(cardinality);

export const isComputed = (relationship: Relationship): relationship is ComputedRelationship =>
  relationship.cardinality === 'computed-one' || relationship.cardinality === 'computed-many';

const reversed = (pairs: Pairs): Pairs => pairs.map(([own, foreign]) => [foreign, own]);

/** One end of a foreign key: the table that the constraint names, or a view that shows all columns of it. */
interface End {
  relation: RelationRow;
  columns: string[];
}

/** A foreign key between two relations that are exposed. */
interface Link {
  constraint: string;
  from: RelationRow;
  to: RelationRow;
  pairs: Pairs;
  unique: boolean;
}

export interface Relationships {
  of(relation: number): Relationship[];
  primaryKey(relation: number): string[];
}

export function relate(
  relations: RelationRow[],
  keys: KeyRow[],
  computed: ComputedRow[],
  views: ViewKeys,
): Relationships {
  const exposed = new Map(relations.map((relation) => [relation.oid, relation]));
  const ends = endsWithin(exposed, views);
  const primaryKeys = primaryKeysOf(keys, ends);
  const found = new Map<number, Relationship[]>();
  const add = (from: RelationRow, to: RelationRow, relationship: DistributiveOmit<Relationship, keyof Common>) => {
    const list = found.get(from.oid) ?? [];
    const common = { target: nameOf(to), targetIsView: to.isView, isSelf: from === to };
    list.push({ ...common, ...relationship } as Relationship);
    found.set(from.oid, list);
  };
  const links = linksOf(keys, ends);
  for (const { constraint, from, to, pairs, unique } of links) {
    add(from, to, { cardinality: unique ? 'one-to-one' : 'many-to-one', constraint, pairs });
    add(to, from, { cardinality: unique ? 'one-to-one' : 'one-to-many', constraint, pairs: reversed(pairs) });
  }
  for (const [near, far] of junctions(links, primaryKeys))
    add(near.to, far.to, {
      cardinality: 'many-to-many',
      junction: nameOf(near.from),
      near: { constraint: near.constraint, pairs: reversed(near.pairs) },
      far: { constraint: far.constraint, pairs: far.pairs },
    });
  override(found, computed, exposed, add);
  return { of: (relation) => found.get(relation) ?? [], primaryKey: (relation) => primaryKeys.get(relation) ?? [] };
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

const nameOf = ({ schema, name }: RelationRow): TableName => ({ schema, name });

type EndsOf = (relation: number, columns: number[]) => End[];

function endsWithin(exposed: ReadonlyMap<number, RelationRow>, views: ViewKeys): EndsOf {
  const named = (relation: RelationRow, numbers: number[]): End => ({
    relation,
    columns: numbers.map((number) => relation.columns.find((column) => column.number === number)?.name ?? ''),
  });
  return (oid, columns) => {
    const table = exposed.get(oid);
    const own = table ? [named(table, columns)] : [];
    const through = [...(views.get(oid) ?? [])].flatMap(([view, appearances]) => {
      const relation = exposed.get(view);
      if (!relation) return [];
      return combinations(columns.map((column) => appearances.get(column) ?? [])).map((each) => named(relation, each));
    });
    return [...own, ...through].filter((end) => !end.columns.includes('')).slice(0, MAX_ENDS);
  };
}

/** A column that a view shows under two names makes two relationships; more than these is a view made to hurt. */
const MAX_COMBINATIONS = 64;
/** Views through which one key is seen: relationships are of each at one end with each at the other. */
const MAX_ENDS = 100;
/** Relationships of one project. Those beyond can't be embedded: few databases have a hundred. */
const MAX_LINKS = 20_000;

function combinations(choices: number[][]): number[][] {
  let lists: number[][] = [[]];
  for (const options of choices)
    lists = lists.flatMap((list) => options.map((option) => [...list, option])).slice(0, MAX_COMBINATIONS);
  return lists;
}

function primaryKeysOf(keys: KeyRow[], ends: EndsOf): Map<number, string[]> {
  const result = new Map<number, string[]>();
  for (const { relation, columns } of keys.filter(({ kind }) => kind === 'p')) {
    const seen = new Set<number>();
    for (const end of ends(relation, columns)) {
      if (seen.has(end.relation.oid)) continue;
      seen.add(end.relation.oid);
      result.set(end.relation.oid, [...(result.get(end.relation.oid) ?? []), ...end.columns]);
    }
  }
  return result;
}

function linksOf(keys: KeyRow[], ends: EndsOf): Link[] {
  const uniques = new Set(
    keys.filter(({ kind }) => kind !== 'f').map(({ relation, columns }) => columnSet(relation, columns)),
  );
  const links: Link[] = [];
  for (const { kind, constraint, relation, columns, foreign, foreignColumns } of keys) {
    if (kind !== 'f' || foreign === null || foreignColumns === null || links.length >= MAX_LINKS) continue;
    const unique = uniques.has(columnSet(relation, columns));
    const targets = ends(foreign, foreignColumns);
    for (const from of ends(relation, columns)) {
      for (const to of targets) {
        const pairs = from.columns.map((column, i): [string, string] => [column, to.columns[i] as string]);
        links.push({ constraint, from: from.relation, to: to.relation, pairs, unique });
      }
    }
  }
  return links;
}

const columnSet = (relation: number, columns: number[]) => `${relation}:${[...columns].sort((a, b) => a - b)}`;

/** A table is a junction of two foreign keys when the columns of both are within its primary key. */
function* junctions(links: Link[], primaryKeys: ReadonlyMap<number, string[]>): Generator<[Link, Link]> {
  const within = new Map<RelationRow, Link[]>();
  for (const link of links) {
    const key = primaryKeys.get(link.from.oid) ?? [];
    if (link.unique || !link.pairs.every(([own]) => key.includes(own))) continue;
    within.set(link.from, [...(within.get(link.from) ?? []), link]);
  }
  let left = MAX_LINKS;
  for (const list of within.values())
    for (const near of list)
      for (const far of list) {
        if (near.constraint === far.constraint) continue;
        if (left-- <= 0) return;
        yield [near, far];
      }
}

function override(
  found: Map<number, Relationship[]>,
  computed: ComputedRow[],
  exposed: ReadonlyMap<number, RelationRow>,
  add: (from: RelationRow, to: RelationRow, relationship: Omit<ComputedRelationship, keyof Common>) => void,
): void {
  for (const { schema, name, table, target, single } of computed) {
    const from = exposed.get(table);
    const to = exposed.get(target);
    if (!from || !to) continue;
    const detected = found.get(table) ?? [];
    found.set(
      table,
      detected.filter((each) => isComputed(each) || each.target.name !== name),
    );
    const cardinality = single ? 'computed-one' : 'computed-many';
    add(from, to, { cardinality, routine: { schema, name }, origin: nameOf(from) });
  }
}
