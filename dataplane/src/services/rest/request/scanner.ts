/**
 * Scans one parameter of a query string from left to right. Unexpected input causes PostgREST's error PGRST100 with the
 * column.
 */
import { parseError } from '../errors.js';
import type { Field, JsonStep } from './grammar.js';

const NAME = /[\p{L}\p{N}_ $]+(?:-(?!>)[\p{L}\p{N}_ $]+)*/uy;
const INDEX = /-?\d+(?=->|::|[.,)]|$)/y;
const SPACE = /[ \t]*/y;
/** Maximum number of nested parentheses. A deeper nesting is a mistake or an attack. */
const MAX_DEPTH = 30;

export class Scanner {
  at = 0;
  private depth = 0;
  constructor(
    readonly text: string,
    private readonly what: string,
  ) {}

  get ended(): boolean {
    return this.at >= this.text.length;
  }

  get rest(): string {
    return this.text.slice(this.at);
  }

  sees(token: string): boolean {
    return this.text.startsWith(token, this.at);
  }

  take(token: string): boolean {
    if (!this.sees(token)) return false;
    this.at += token.length;
    return true;
  }

  expect(token: string): void {
    if (!this.take(token)) this.fail(`"${token}"`);
  }

  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text)?.[0];
    if (match !== undefined) this.at += match.length;
    return match;
  }

  space(): void {
    this.match(SPACE);
  }

  fail(expecting: string): never {
    const seen = this.ended ? 'end of input' : `"${String.fromCodePoint(this.text.codePointAt(this.at) as number)}"`;
    throw parseError(this.what, this.text, this.at + 1, `unexpected ${seen} expecting ${expecting}`);
  }

  /** Runs `read` one level deeper, for nested brackets. */
  nested<T>(read: () => T): T {
    if (++this.depth > MAX_DEPTH) this.fail('fewer nested parentheses');
    const result = read();
    this.depth--;
    return result;
  }

  /** Returns the result of `read`, or undefined with the position restored. */
  attempt<T>(read: () => T | undefined): T | undefined {
    const begin = this.at;
    const result = read();
    if (result === undefined) this.at = begin;
    return result;
  }

  list<T>(read: () => T): T[] {
    const items = [read()];
    for (this.space(); this.take(','); this.space()) {
      this.space();
      items.push(read());
    }
    return items;
  }

  name(expecting = 'field name (* or [a..z0..9_$])'): string {
    return this.optionalName() ?? this.fail(expecting);
  }

  optionalName(): string | undefined {
    return this.sees('"') ? this.quoted() : this.match(NAME)?.trim() || undefined;
  }

  quoted(): string {
    this.expect('"');
    let value = '';
    while (!this.take('"')) {
      if (this.ended) this.fail('"\\""');
      this.take('\\');
      const character = String.fromCodePoint(this.text.codePointAt(this.at) ?? 0);
      value += character;
      this.at += character.length;
    }
    return value;
  }

  jsonPath(): JsonStep[] {
    const path: JsonStep[] = [];
    while (this.sees('->')) {
      const arrow = this.take('->>') ? '->>' : '->';
      if (arrow === '->') this.expect('->');
      const index = this.match(INDEX);
      path.push({ arrow, key: index ?? this.name(), isIndex: index !== undefined });
    }
    return path;
  }

  field(): Field {
    this.space();
    const name = this.name();
    const path = this.jsonPath();
    this.space();
    return { name, path };
  }
}
