/** Text of one statement in the making: identifiers are quoted, every value becomes a parameter. */
import type { Slot, Value } from '../request/grammar.js';

/** Where a parameter's value comes from when the statement runs. */
export type Source =
  | { from: 'constant'; text: string }
  | { from: 'query'; slot: Slot; pattern: boolean }
  | { from: 'body' }
  | { from: 'offset' };

export class Writer {
  readonly sources: Source[] = [];
  /** Those taken, each with the next number that was not tried for it. */
  private readonly names = new Map<string, number>();
  private readonly steps = new Map<string, string>();

  /** `pattern`: `*` stands for `%`. */
  bind(value: Value, pattern = false): string {
    if (value.slot === undefined) return this.constant(pattern ? likePattern(value.text) : value.text);
    return this.add({ from: 'query', slot: value.slot, pattern });
  }

  constant(text: string): string {
    return this.add({ from: 'constant', text });
  }

  /** The same for the same text, so that Postgres sees two expressions with it as equal. */
  typed(text: string, type: 'int' | 'text'): string {
    const key = `${type}:${text}`;
    const known = this.steps.get(key);
    if (known !== undefined) return known;
    const parameter = `${this.constant(text)}::${type}`;
    this.steps.set(key, parameter);
    return parameter;
  }

  add(source: Source): string {
    return `$${this.sources.push(source)}`;
  }

  /** An alias that no other table of this statement has. */
  alias(name: string): string {
    let alias = name;
    let number = this.names.get(name) ?? 1;
    while (this.names.has(alias)) alias = `${name}_${number++}`;
    this.names.set(alias, 1).set(name, number);
    return alias;
  }
}

export const likePattern = (text: string) => text.replaceAll('*', '%');

/** Quoted, and cut where Postgres would cut it: a name can hold no NUL. */
export const identifier = (name: string) => `"${name.replaceAll('\0', '').replaceAll('"', '""')}"`;

export const qualified = ({ schema, name }: { schema: string; name: string }) =>
  `${identifier(schema)}.${identifier(name)}`;

/** Postgres' text form of an array of texts. */
export const arrayLiteral = (values: readonly string[]) =>
  `{${values.map((value) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`;
