/**
 * Types as people write them in `col::type`. A type's own name can be quoted as an identifier; SQL's names of several
 * words can't.
 */
import { identifier } from './writer.js';

const SPELLINGS: Record<string, string> = {
  bigint: 'int8',
  bit: 'bit',
  boolean: 'bool',
  char: 'bpchar',
  character: 'bpchar',
  'character varying': 'varchar',
  dec: 'numeric',
  decimal: 'numeric',
  'double precision': 'float8',
  float: 'float8',
  int: 'int4',
  integer: 'int4',
  real: 'float4',
  smallint: 'int2',
  'time with time zone': 'timetz',
  'time without time zone': 'time',
  'timestamp with time zone': 'timestamptz',
  'timestamp without time zone': 'timestamp',
};

export function castType(name: string): string {
  const lower = name.toLowerCase();
  return identifier(Object.hasOwn(SPELLINGS, lower) ? (SPELLINGS[lower] as string) : lower);
}
