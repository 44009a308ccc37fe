/** Parses label and field selectors into functions that test an object. */
import type { KubeObject } from '../objects.js';
import type { Resource } from '../resources/resource.js';
import { badRequest } from '../status.js';

export type Matcher = (object: KubeObject) => boolean;
type Labels = Record<string, string>;
type LabelTest = (labels: Labels) => boolean;

const NOTHING: Labels = {};
const TOKEN = /\s*(notin(?=[\s(])|in(?=[\s(])|==|!=|=|!|,|\(|\)|<|>|[^\s,()=!<>]+)\s*/y;

/** Returns undefined if everything matches. */
export function labelSelector(text: string | null): Matcher | undefined {
  if (!text?.trim()) return undefined;
  const tests = new LabelParser(text).parse();
  return (object) => {
    const labels = object.metadata.labels ?? NOTHING;
    return tests.every((test) => test(labels));
  };
}

class LabelParser {
  #tokens: string[] = [];
  #next = 0;

  constructor(text: string) {
    TOKEN.lastIndex = 0;
    while (TOKEN.lastIndex < text.length) {
      const match = TOKEN.exec(text);
      if (!match) throw badRequest(`unable to parse requirement: unexpected character in ${JSON.stringify(text)}`);
      this.#tokens.push(match[1] as string);
    }
  }

  parse(): LabelTest[] {
    const tests = [this.#requirement()];
    while (this.#peek() !== undefined) {
      this.#expect(',');
      tests.push(this.#requirement());
    }
    return tests;
  }

  #requirement(): LabelTest {
    if (this.#peek() === '!') {
      this.#next++;
      const key = this.#identifier();
      return (labels) => !Object.hasOwn(labels, key);
    }
    const key = this.#identifier();
    const operator = this.#peek();
    if (operator === undefined || operator === ',') return (labels) => Object.hasOwn(labels, key);
    this.#next++;
    switch (operator) {
      case '=':
      case '==': {
        const value = this.#value();
        return (labels) => labels[key] === value;
      }
      case '!=': {
        const value = this.#value();
        return (labels) => labels[key] !== value;
      }
      case 'in':
      case 'notin': {
        const values = this.#values();
        const wanted = operator === 'in';
        return (labels) => (Object.hasOwn(labels, key) ? values.has(labels[key] as string) === wanted : !wanted);
      }
      case '<':
      case '>': {
        const bound = Number(this.#identifier());
        return (labels) => {
          const value = Number(labels[key] ?? Number.NaN);
          return operator === '<' ? value < bound : value > bound;
        };
      }
      default:
        throw this.#unexpected(operator, 'in, notin, =, ==, !=, gt, lt');
    }
  }

  #values(): Set<string> {
    this.#expect('(');
    const values = new Set([this.#value()]);
    while (this.#peek() === ',') {
      this.#next++;
      values.add(this.#value());
    }
    this.#expect(')');
    return values;
  }

  /** Parses a value, which may be empty. */
  #value(): string {
    const token = this.#peek();
    return token === undefined || token === ',' || token === ')' ? '' : this.#identifier();
  }

  #identifier(): string {
    const token = this.#peek();
    if (token === undefined || /^[=!<>(),]/.test(token)) throw this.#unexpected(token, 'identifier');
    this.#next++;
    return token;
  }

  #expect(wanted: string): void {
    if (this.#peek() !== wanted) throw this.#unexpected(this.#peek(), `'${wanted}'`);
    this.#next++;
  }

  #peek(): string | undefined {
    return this.#tokens[this.#next];
  }

  #unexpected(token: string | undefined, wanted: string) {
    return badRequest(`unable to parse requirement: found '${token ?? ''}', expected: ${wanted}`);
  }
}

export interface FieldSelection {
  /** Undefined if everything matches. */
  matches: Matcher | undefined;
  /** The requested name, if the selector requires one. */
  name: string | undefined;
}

export function fieldSelector(text: string | null, resource: Resource): FieldSelection {
  if (!text) return { matches: undefined, name: undefined };
  const terms = text
    .split(/(?<!\\),/)
    .filter(Boolean)
    .map((term) => fieldTerm(term, resource));
  const name = terms.find((term) => term.field === 'metadata.name' && term.equal)?.value;
  const own = terms.some(({ field }) => !field.startsWith('metadata.'));
  const matches: Matcher = (object) => {
    const fields = own ? (resource.strategy.fields?.(object) ?? {}) : undefined;
    return terms.every(({ field, equal, value }) => (fieldValue(object, field, fields) === value) === equal);
  };
  return { matches, name };
}

function fieldValue({ metadata }: KubeObject, field: string, fields: Record<string, string> | undefined): string {
  if (field === 'metadata.name') return metadata.name;
  return field === 'metadata.namespace' ? (metadata.namespace ?? '') : (fields?.[field] ?? '');
}

function fieldTerm(term: string, resource: Resource) {
  const match = /^(.*?)(!=|==|=)(.*)$/s.exec(term);
  if (!match) throw badRequest(`invalid selector: '${term}'; can't understand '${term}'`);
  const [, field, operator, value] = match as unknown as [string, string, string, string];
  checkField(field, resource);
  return { field, equal: operator !== '!=', value: value.replace(/\\(.)/g, '$1') };
}

function checkField(field: string, { custom, kind, strategy }: Resource): void {
  const names = strategy.fieldNames ?? [];
  if (field === 'metadata.name' || field === 'metadata.namespace' || names.includes(field)) return;
  if (custom || names.length > 0)
    throw badRequest(
      custom ? `field label not supported: ${field}` : `${field} is not a known field selector: only ${kind}'s`,
    );
  throw badRequest(
    `${JSON.stringify(field)} is not a known field selector: only "metadata.name", "metadata.namespace"`,
  );
}
