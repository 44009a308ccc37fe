/**
 * Finds the only relationship that `select=target!hint(…)` matches, or throws PostgREST's error if there is none or
 * more than one.
 */
import type { Catalogue, Table } from '../catalogue/catalogue.js';
import { isComputed, type Relationship } from '../catalogue/relationships.js';
import { RestError } from '../errors.js';
import { closest } from './similar.js';

export interface Sought {
  /** Name of the embedding resource. */
  origin: string;
  schema: string;
  /** Undefined: the origin is the result of a function without a table. */
  table: Table | undefined;
  target: string;
  hint: string | undefined;
}

export function findRelationship(catalogue: Catalogue, sought: Sought): Relationship {
  const { table, schema, target, hint } = sought;
  const matching = (table?.relationships ?? []).filter((each) => isWithin(each, schema) && matches(each, target, hint));
  const [first, second] = matching;
  if (first && !second) return first;
  if (!first || !second) throw noRelationship(catalogue, sought);
  throw ambiguous(sought.origin, target, matching);
}

/** Tables of other exposed schemas may have the same names; a function names its table itself. */
const isWithin = (relationship: Relationship, schema: string) =>
  isComputed(relationship) || relationship.target.schema === schema;

function matches(relationship: Relationship, target: string, hint: string | undefined): boolean {
  if (isComputed(relationship)) return target === relationship.routine.name;
  const isNamed = target === relationship.target.name;
  if (relationship.isSelf) return matchesSelf(relationship, isNamed, target, hint);
  if (relationship.cardinality === 'many-to-many') {
    const ends = [relationship.junction.name, relationship.near.constraint, relationship.far.constraint];
    return isNamed && (hint === undefined || ends.includes(hint));
  }
  const { constraint, pairs, targetIsView } = relationship;
  const single = pairs.length === 1 ? pairs[0] : undefined;
  if (hint !== undefined) return isNamed && (hint === constraint || (single?.includes(hint) ?? false));
  return isNamed || (!targetIsView && (target === constraint || target === single?.[0]));
}

/** A table that refers to itself embeds its children by its own name, and its parent by the column's. */
function matchesSelf(
  relationship: Exclude<Relationship, { cardinality: 'computed-one' | 'computed-many' }>,
  isNamed: boolean,
  target: string,
  hint: string | undefined,
): boolean {
  if (relationship.cardinality === 'many-to-many') return false;
  const single = relationship.pairs.length === 1 ? relationship.pairs[0] : undefined;
  if (relationship.cardinality === 'one-to-many') return isNamed && (hint === undefined || hint === single?.[1]);
  return hint === undefined && target === single?.[0];
}

function noRelationship(catalogue: Catalogue, { schema, origin, table, target, hint }: Sought) {
  const known = table
    ? { searched: target, names: table.relationships.map((each) => each.target.name) }
    : {
        searched: origin,
        names: [...catalogue.tables.values()].filter((each) => each.schema === schema).map(({ name }) => name),
      };
  const similar = known.names.includes(known.searched) ? undefined : closest(known.searched, known.names, 0.33);
  const using = hint === undefined ? '' : `' using the hint '${hint}`;
  return new RestError(
    400,
    'PGRST200',
    `Could not find a relationship between '${origin}' and '${target}' in the schema cache`,
    {
      details:
        `Searched for a foreign key relationship between '${origin}' and '${target}${using}' ` +
        `in the schema '${schema}', but no matches were found.`,
      hint: similar ? `Perhaps you meant '${similar}' instead of '${known.searched}'.` : null,
    },
  );
}

function ambiguous(origin: string, target: string, matching: Relationship[]) {
  const choices = matching.map((each) => `'${each.target.name}!${hintOf(each)}'`);
  return new RestError(
    300,
    'PGRST201',
    `Could not embed because more than one relationship was found for '${origin}' and '${target}'`,
    {
      details: matching.map((each) => ({
        cardinality: each.cardinality,
        embedding: `${origin} with ${each.target.name}`,
        relationship: described(origin, each),
      })),
      hint:
        `Try changing '${target}' to one of the following: ${choices.join(', ')}. ` +
        "Find the desired relationship in the 'details' key.",
    },
  );
}

function hintOf(relationship: Relationship): string {
  if (isComputed(relationship)) return relationship.routine.name;
  return relationship.cardinality === 'many-to-many' ? relationship.junction.name : relationship.constraint;
}

function described(origin: string, relationship: Relationship): string {
  if (isComputed(relationship)) return relationship.routine.name;
  const columns = (names: string[]) => `(${names.join(', ')})`;
  if (relationship.cardinality === 'many-to-many') {
    const { junction, near, far } = relationship;
    const [nearColumns, farColumns] = [near.pairs.map(([, own]) => own), far.pairs.map(([own]) => own)];
    const through = `${near.constraint}${columns(nearColumns)} and ${far.constraint}${columns(farColumns)}`;
    return `${junction.name} using ${through}`;
  }
  const { constraint, pairs, target } = relationship;
  const foreignSide = `${target.name}${columns(pairs.map(([, foreign]) => foreign))}`;
  return `${constraint} using ${origin}${columns(pairs.map(([own]) => own))} and ${foreignSide}`;
}
