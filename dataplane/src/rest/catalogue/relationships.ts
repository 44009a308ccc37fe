/** How tables relate, derived from foreign keys: each is seen from both of its ends, and a table between two makes many-to-many. */
import { type ForeignKey, keyOf, type TableRow } from './catalogue.js';

export interface TableName {
  schema: string;
  name: string;
}

/** Pairs of columns that are equal in related rows. */
export type Pairs = [own: string, foreign: string][];

export type Relationship = { target: TableName } & (
  | { cardinality: 'many-to-one' | 'one-to-many' | 'one-to-one'; constraint: string; pairs: Pairs }
  | {
      cardinality: 'many-to-many';
      junction: TableName;
      near: { constraint: string; pairs: Pairs };
      /** From the junction to the target. */
      far: { constraint: string; pairs: Pairs };
    }
);

export const isToOne = ({ cardinality }: Relationship) => cardinality === 'many-to-one' || cardinality === 'one-to-one';

const isUnique = (table: TableRow, columns: string[]) =>
  table.uniques.some(
    (unique) => unique.length === columns.length && unique.every((column) => columns.includes(column)),
  );

const pairsOf = ({ columns, foreignColumns }: ForeignKey): Pairs =>
  columns.map((column, i) => [column, foreignColumns[i] as string]);

const reversed = (pairs: Pairs): Pairs => pairs.map(([own, foreign]) => [foreign, own]);

export function relate(tables: TableRow[]): Map<string, Relationship[]> {
  const known = new Set(tables.map(({ schema, name }) => keyOf(schema, name)));
  const result = new Map<string, Relationship[]>();
  const add = (from: TableName, relationship: Relationship) => {
    const key = keyOf(from.schema, from.name);
    if (!known.has(key) || !known.has(keyOf(relationship.target.schema, relationship.target.name))) return;
    const list = result.get(key);
    if (list) list.push(relationship);
    else result.set(key, [relationship]);
  };
  for (const table of tables) {
    const own = { schema: table.schema, name: table.name };
    for (const foreignKey of table.foreignKeys) {
      const target = { schema: foreignKey.schema, name: foreignKey.table };
      const { constraint } = foreignKey;
      const unique = isUnique(table, foreignKey.columns);
      add(own, { target, cardinality: unique ? 'one-to-one' : 'many-to-one', constraint, pairs: pairsOf(foreignKey) });
      const back = reversed(pairsOf(foreignKey));
      add(target, { target: own, cardinality: unique ? 'one-to-one' : 'one-to-many', constraint, pairs: back });
    }
    for (const [near, far] of junctionEnds(table)) {
      add(
        { schema: near.schema, name: near.table },
        {
          target: { schema: far.schema, name: far.table },
          cardinality: 'many-to-many',
          junction: own,
          near: { constraint: near.constraint, pairs: reversed(pairsOf(near)) },
          far: { constraint: far.constraint, pairs: pairsOf(far) },
        },
      );
    }
  }
  return result;
}

/** A table is a junction of two foreign keys when the columns of both are within its primary key. */
function junctionEnds(table: TableRow): [ForeignKey, ForeignKey][] {
  const within = table.foreignKeys.filter(({ columns }) =>
    columns.every((column) => table.primaryKey.includes(column)),
  );
  return within.flatMap((near) =>
    within.filter((far) => far !== near).map((far): [ForeignKey, ForeignKey] => [near, far]),
  );
}
