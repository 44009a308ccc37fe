/** Builds the text of a statement: identifiers are quoted, every value becomes a parameter. */
import type { Slot, Value } from '../request/grammar.js';

/** Source of a parameter's value when the statement runs. */
export type Source =
  | { from: 'constant'; text: string }
  | { from: 'query'; slot: Slot; pattern: boolean }
  | { from: 'body' }
  | { from: 'offset' };

export class Writer {
  readonly sources: Source[] = [];
  /** Used aliases, each with the next number to try. */
  private readonly names = new Map<string, number>();
  private readonly steps = new Map<string, string>();

  /** `pattern`: `*` is replaced by `%`. */
  bind(value: Value, pattern = false): string {
    if (value.slot === undefined) return this.constant(pattern ? likePattern(value.text) : value.text);
    return this.add({ from: 'query', slot: value.slot, pattern });
  }

  constant(text: string): string {
    return this.add({ from: 'constant', text });
  }

  /** Returns the same parameter for the same text, so that Postgres treats two expressions with it as equal. */
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

  /** Returns an alias that is unique in this statement. */
  alias(name: string): string {
    let alias = name;
    let number = this.names.get(name) ?? 1;
    while (this.names.has(alias)) alias = `${name}_${number++}`;
    this.names.set(alias, 1).set(name, number);
    return alias;
  }
}

export const likePattern = (text: string) => text.replaceAll('*', '%');

/** Quotes an identifier, truncated as by Postgres. A name can't contain NUL. */
export const identifier = (name: string) => `"${name.replaceAll('\0', '').replaceAll('"', '""')}"`;

export const qualified = ({ schema, name }: { schema: string; name: string }) =>
  `${identifier(schema)}.${identifier(name)}`;

/** Returns Postgres' text format of an array of texts. */
export const arrayLiteral = (values: readonly string[]) =>
  `{${values.map((value) => `"${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`).join(',')}}`;
