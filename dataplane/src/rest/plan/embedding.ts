/** Finds the one relationship that `select=target!hint(…)` means, or says as PostgREST does that there is none or more than one. */
import type { Catalogue, Table } from '../catalogue/catalogue.js';
import type { Relationship } from '../catalogue/relationships.js';
import { RestError } from '../errors.js';
import { closest } from './similar.js';

export function findRelationship(
  catalogue: Catalogue,
  schema: string,
  origin: string,
  table: Table | undefined,
  target: string,
  hint: string | undefined,
): Relationship {
  const found = (table?.relationships ?? []).filter((each) => matches(each, target, hint));
  const [first, second] = found;
  if (first && !second) return first;
  if (!first || !second) throw noRelationship(catalogue, schema, origin, table, target, hint);
  return withinItself(found, origin) ?? fail(ambiguous(origin, target, found));
}

function fail(error: RestError): never {
  throw error;
}

function matches(relationship: Relationship, target: string, hint: string | undefined): boolean {
  if (relationship.cardinality === 'many-to-many') {
    if (target !== relationship.target.name) return false;
    const ends = [relationship.junction.name, relationship.near.constraint, relationship.far.constraint];
    return hint === undefined || ends.includes(hint);
  }
  const { constraint, pairs } = relationship;
  const single = pairs.length === 1 ? pairs[0] : undefined;
  if (hint !== undefined)
    return target === relationship.target.name && (hint === constraint || (single?.includes(hint) ?? false));
  return target === relationship.target.name || target === constraint || target === single?.[0];
}

/** A table that refers to itself is embedded as its children; the column as hint means the parent. */
function withinItself(found: Relationship[], origin: string): Relationship | undefined {
  const [one, other] = found;
  if (found.length !== 2 || !one || !other || one.target.name !== origin) return undefined;
  if (one.cardinality === 'many-to-many' || other.cardinality === 'many-to-many') return undefined;
  return one.constraint === other.constraint
    ? found.find(({ cardinality }) => cardinality === 'one-to-many')
    : undefined;
}

function noRelationship(
  catalogue: Catalogue,
  schema: string,
  origin: string,
  table: Table | undefined,
  target: string,
  hint: string | undefined,
) {
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
      details: `Searched for a foreign key relationship between '${origin}' and '${target}${using}' in the schema '${schema}', but no matches were found.`,
      hint: similar ? `Perhaps you meant '${similar}' instead of '${known.searched}'.` : null,
    },
  );
}

function ambiguous(origin: string, target: string, found: Relationship[]) {
  const choices = found.map(
    (each) => `'${each.target.name}!${each.cardinality === 'many-to-many' ? each.junction.name : each.constraint}'`,
  );
  return new RestError(
    300,
    'PGRST201',
    `Could not embed because more than one relationship was found for '${origin}' and '${target}'`,
    {
      details: found.map((each) => ({
        cardinality: each.cardinality,
        embedding: `${origin} with ${each.target.name}`,
        relationship: described(origin, each),
      })),
      hint: `Try changing '${target}' to one of the following: ${choices.join(', ')}. Find the desired relationship in the 'details' key.`,
    },
  );
}

function described(origin: string, relationship: Relationship): string {
  const columns = (names: string[]) => `(${names.join(', ')})`;
  if (relationship.cardinality === 'many-to-many') {
    const { junction, near, far } = relationship;
    const [nearColumns, farColumns] = [near.pairs.map(([, own]) => own), far.pairs.map(([own]) => own)];
    return `${junction.name} using ${near.constraint}${columns(nearColumns)} and ${far.constraint}${columns(farColumns)}`;
  }
  const { constraint, pairs, target } = relationship;
  return `${constraint} using ${origin}${columns(pairs.map(([own]) => own))} and ${target.name}${columns(pairs.map(([, foreign]) => foreign))}`;
}
