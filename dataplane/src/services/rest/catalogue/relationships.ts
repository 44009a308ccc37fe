/**
 * Relationships between tables and views, derived from foreign keys. Each is visible from both ends, also through
 * views, and a table between two makes a many-to-many relationship. Functions from a row to rows of another table
 * override them.
 */
import type { Steps } from '../../../bounds/turns.js';
import type { ComputedRow, RelationRow } from './catalogue.js';
import type { KeyRow, ViewKeys } from './keys.js';

export interface TableName {
  schema: string;
  name: string;
}

/** Pairs of columns with equal values in related rows. */
export type Pairs = [own: string, foreign: string][];

interface Common {
  target: TableName;
  targetIsView: boolean;
  /** True for a relationship from a table to itself. */
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
  /** Pairs of columns from the junction to the target. */
  far: { constraint: string; pairs: Pairs };
}

export interface ComputedRelationship extends Common {
  cardinality: 'computed-one' | 'computed-many';
  routine: TableName;
  /** Table whose row the function accepts. */
  origin: TableName;
}

export type Relationship = KeyRelationship | JunctionRelationship | ComputedRelationship;

const TO_ONE: ReadonlySet<string> = new Set(['many-to-one', 'one-to-one', 'computed-one']);

export const isToOne = ({ cardinality }: Relationship) => TO_ONE.has(cardinality);

export const isComputed = (relationship: Relationship): relationship is ComputedRelationship =>
  relationship.cardinality === 'computed-one' || relationship.cardinality === 'computed-many';

const reversed = (pairs: Pairs): Pairs => pairs.map(([own, foreign]) => [foreign, own]);

/** End of a foreign key: the constraint's table, or a view with all its columns. */
interface End {
  relation: RelationRow;
  columns: string[];
}

/** Foreign key between two exposed relations. */
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

export function* relate(
  relations: RelationRow[],
  keys: KeyRow[],
  computed: ComputedRow[],
  views: ViewKeys,
): Steps<Relationships> {
  const exposed = new Map(relations.map((relation) => [relation.oid, relation]));
  const ends = endsWithin(exposed, views);
  const primaryKeys = yield* primaryKeysOf(keys, ends);
  const relationships = new Map<number, Relationship[]>();
  const add = (from: RelationRow, to: RelationRow, relationship: DistributiveOmit<Relationship, keyof Common>) => {
    const list = relationships.get(from.oid) ?? [];
    const common = { target: nameOf(to), targetIsView: to.isView, isSelf: from === to };
    list.push({ ...common, ...relationship } as Relationship);
    relationships.set(from.oid, list);
  };
  const links = yield* linksOf(keys, ends);
  for (const [i, { constraint, from, to, pairs, unique }] of links.entries()) {
    if (i % LINKS_OF_STEP === 0) yield;
    add(from, to, { cardinality: unique ? 'one-to-one' : 'many-to-one', constraint, pairs });
    add(to, from, { cardinality: unique ? 'one-to-one' : 'one-to-many', constraint, pairs: reversed(pairs) });
  }
  let made = 0;
  for (const [near, far] of junctions(yield* keyLinksOf(links, primaryKeys))) {
    if (++made % LINKS_OF_STEP === 0) yield;
    add(near.to, far.to, {
      cardinality: 'many-to-many',
      junction: nameOf(near.from),
      near: { constraint: near.constraint, pairs: reversed(near.pairs) },
      far: { constraint: far.constraint, pairs: far.pairs },
    });
  }
  yield* override(relationships, computed, exposed, add);
  return {
    of: (relation) => relationships.get(relation) ?? [],
    primaryKey: (relation) => primaryKeys.get(relation) ?? [],
  };
}

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

const nameOf = ({ schema, name }: RelationRow): TableName => ({ schema, name });

type EndsOf = (relation: number, columns: number[]) => Steps<End[]>;

function endsWithin(exposed: ReadonlyMap<number, RelationRow>, views: ViewKeys): EndsOf {
  const namesOf = new Map<RelationRow, Map<number, string>>();
  const named = (relation: RelationRow, numbers: number[]): End => {
    let names = namesOf.get(relation);
    if (!names) {
      names = new Map(relation.columns.map(({ number, name }) => [number, name]));
      namesOf.set(relation, names);
    }
    return { relation, columns: numbers.map((number) => names.get(number) ?? '') };
  };
  return function* (oid, columns) {
    const table = exposed.get(oid);
    const ends = table ? [named(table, columns)] : [];
    for (const [view, appearances] of views.get(oid) ?? []) {
      yield;
      const relation = exposed.get(view);
      if (!relation || !columns.every((column) => appearances.has(column))) continue;
      for (const each of combinations(columns.map((column) => appearances.get(column) as number[])))
        ends.push(named(relation, each));
      if (ends.length > MAX_ENDS) break;
    }
    return ends.filter((end) => !end.columns.includes('')).slice(0, MAX_ENDS);
  };
}

/** Maximum number of relationships of a view that shows a column under several names. A view with more is hostile. */
const MAX_COMBINATIONS = 64;
/** Maximum number of views for each end of a key, because the number of relationships is the product of both ends. */
const MAX_ENDS = 100;
/** Number of relationships that are made in one step. */
const LINKS_OF_STEP = 500;
/** Maximum number of relationships of one project; further ones can't be embedded. Few databases have a hundred. */
const MAX_LINKS = 20_000;

function combinations(choices: number[][]): number[][] {
  let lists: number[][] = [[]];
  for (const all of choices) {
    const options = all.slice(0, MAX_COMBINATIONS);
    const most = Math.ceil(MAX_COMBINATIONS / options.length);
    const longer = lists.slice(0, most).flatMap((list) => options.map((option) => [...list, option]));
    lists = longer.slice(0, MAX_COMBINATIONS);
  }
  return lists;
}

function* primaryKeysOf(keys: KeyRow[], ends: EndsOf): Steps<Map<number, string[]>> {
  const result = new Map<number, string[]>();
  for (const { relation, columns } of keys.filter(({ kind }) => kind === 'p')) {
    yield;
    const seen = new Set<number>();
    for (const end of yield* ends(relation, columns)) {
      if (seen.has(end.relation.oid)) continue;
      seen.add(end.relation.oid);
      const known = result.get(end.relation.oid);
      if (known) known.push(...end.columns);
      else result.set(end.relation.oid, [...end.columns]);
    }
  }
  return result;
}

function* linksOf(keys: KeyRow[], ends: EndsOf): Steps<Link[]> {
  const uniques = yield* uniqueSetsOf(keys);
  const links: Link[] = [];
  for (const { kind, constraint, relation, columns, foreign, foreignColumns } of keys) {
    if (kind !== 'f' || foreign === null || foreignColumns === null || links.length >= MAX_LINKS) continue;
    yield;
    const unique = uniques.has(columnSet(relation, columns));
    const targets = yield* ends(foreign, foreignColumns);
    for (const from of yield* ends(relation, columns)) {
      yield;
      for (const to of targets) {
        const pairs = from.columns.map((column, i): [string, string] => [column, to.columns[i] as string]);
        links.push({ constraint, from: from.relation, to: to.relation, pairs, unique });
      }
    }
  }
  return links;
}

function* uniqueSetsOf(keys: KeyRow[]): Steps<ReadonlySet<string>> {
  const sets = new Set<string>();
  for (const [i, { kind, relation, columns }] of keys.entries()) {
    if (i % LINKS_OF_STEP === 0) yield;
    if (kind !== 'f') sets.add(columnSet(relation, columns));
  }
  return sets;
}

const columnSet = (relation: number, columns: number[]) => `${relation}:${[...columns].sort((a, b) => a - b)}`;

/** Returns the links of junctions by table: the primary key includes the columns of the foreign key. */
function* keyLinksOf(links: Link[], primaryKeys: ReadonlyMap<number, string[]>): Steps<Iterable<Link[]>> {
  const within = new Map<RelationRow, Link[]>();
  const keys = new Map<RelationRow, ReadonlySet<string>>();
  for (const [i, link] of links.entries()) {
    if (i % LINKS_OF_STEP === 0) yield;
    const key = keys.get(link.from) ?? new Set(primaryKeys.get(link.from.oid));
    keys.set(link.from, key);
    if (link.unique || !link.pairs.every(([own]) => key.has(own))) continue;
    const list = within.get(link.from);
    if (list) list.push(link);
    else within.set(link.from, [link]);
  }
  return within.values();
}

function* junctions(lists: Iterable<Link[]>): Generator<[Link, Link]> {
  let left = MAX_LINKS;
  for (const list of lists)
    for (const near of list)
      for (const far of list) {
        if (near.constraint === far.constraint) continue;
        if (left-- <= 0) return;
        yield [near, far];
      }
}

function* override(
  relationships: Map<number, Relationship[]>,
  computed: ComputedRow[],
  exposed: ReadonlyMap<number, RelationRow>,
  add: (from: RelationRow, to: RelationRow, relationship: Omit<ComputedRelationship, keyof Common>) => void,
): Steps<void> {
  const names = new Map<number, Set<string>>();
  for (const [i, { name, table, target }] of computed.entries()) {
    if (i % LINKS_OF_STEP === 0) yield;
    if (!exposed.has(table) || !exposed.has(target)) continue;
    const ofTable = names.get(table);
    if (ofTable) ofTable.add(name);
    else names.set(table, new Set([name]));
  }
  for (const [table, overridden] of names) {
    yield;
    const kept = (relationships.get(table) ?? []).filter(({ target }) => !overridden.has(target.name));
    relationships.set(table, kept);
  }
  let made = 0;
  for (const { schema, name, table, target, single } of computed) {
    const from = exposed.get(table);
    const to = exposed.get(target);
    if (!from || !to) continue;
    const cardinality = single ? 'computed-one' : 'computed-many';
    add(from, to, { cardinality, routine: { schema, name }, origin: nameOf(from) });
    if (++made % LINKS_OF_STEP === 0) yield;
  }
}
