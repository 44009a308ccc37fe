/**
 * Replaces secret values in a text that arrives in pieces, even if a value is split between two pieces. In: pieces.
 * Out: text that can be shown. The end of a piece is buffered while it may be the beginning of a secret. The cost of a
 * piece is proportional to its length, whatever the values are: one automaton searches for all values, and reads the
 * text once.
 */
import { runInTurns, type Steps } from '@slipway/program';
import { Forms } from './forms.js';

const REDACTED = '[redacted]';
/** Minimum length of a value that is redacted. Shorter values occur in any text. */
const SHORTEST = 4;

/** A part of the text that is not shown. Positions count from the beginning of the text. */
interface Span {
  start: number;
  end: number;
  /** The end of the last secret in the span that overlaps no secret before it. */
  lastEnd: number;
  /** The number of replacements that are still to be written for the span. */
  secrets: number;
}

export class Redactor {
  readonly #steps: Steps<Forms> | undefined;
  #forms: Forms | undefined;
  /** The number of characters read, and the number of characters that are shown or replaced. */
  #read = 0;
  #done = 0;
  /** The state's text is the end of the text read so far. It may be the beginning of a secret. */
  #state = 0;
  #spans: Span[] = [];

  constructor(values: Iterable<string>) {
    const all = [...values];
    const forms = new Set([...all.flatMap(formsOf), ...all.flatMap(linesOf)].filter((form) => form.length >= SHORTEST));
    if (forms.size > 0) this.#steps = Forms.of([...forms]);
  }

  /** Prepares for large values in short turns. Otherwise the first piece does that work in one turn. */
  async prepare(): Promise<void> {
    if (this.#steps) this.#forms ??= await runInTurns(this.#steps);
  }

  push(piece: string): string {
    const forms = this.#prepared();
    if (!forms) return piece;
    const text = forms.textOf(this.#state);
    const [begin, start] = [this.#read - text.length, this.#read];
    for (let index = 0; index < piece.length; index += 1) {
      this.#state = forms.after(this.#state, piece.charCodeAt(index));
      this.#read += 1;
      const length = forms.matches[this.#state] as number;
      if (length > 0) this.#hide(this.#read - length, this.#read);
    }
    const pending = forms.depths[this.#state] as number;
    return this.#shown(this.#read - pending, (from, to) =>
      from < start
        ? text.slice(from - begin, to - begin) + piece.slice(0, Math.max(0, to - start))
        : piece.slice(from - start, to - start),
    );
  }

  /** Returns the rest of the text after the last piece. */
  end(): string {
    const text = this.#forms?.textOf(this.#state) ?? '';
    const begin = this.#read - text.length;
    this.#state = 0;
    return this.#shown(this.#read, (from, to) => text.slice(from - begin, to - begin));
  }

  #prepared(): Forms | undefined {
    if (!this.#steps || this.#forms) return this.#forms;
    let step = this.#steps.next();
    while (!step.done) step = this.#steps.next();
    this.#forms = step.value;
    return this.#forms;
  }

  /** Adds a secret. Merges overlapping secrets into one span. */
  #hide(start: number, end: number): void {
    const span: Span = { start, end, lastEnd: end, secrets: 1 };
    for (let last = this.#spans.at(-1); last && last.end > start; last = this.#spans.at(-1)) {
      this.#spans.pop();
      if (last.start >= start) continue;
      span.start = last.start;
      span.lastEnd = start >= last.lastEnd ? end : last.lastEnd;
      span.secrets = last.secrets + (start >= last.lastEnd ? 1 : 0);
    }
    this.#spans.push(span);
  }

  /** Returns the text up to `limit`. No secret that ends later can begin before that position. */
  #shown(limit: number, textBetween: (from: number, to: number) => string): string {
    let shown = '';
    let ended = 0;
    for (const span of this.#spans) {
      if (span.start >= limit) break;
      if (this.#done < span.start) shown += textBetween(this.#done, span.start);
      shown += REDACTED.repeat(span.secrets);
      span.secrets = 0;
      this.#done = span.end;
      if (span.end > limit) break;
      ended += 1;
    }
    this.#spans.splice(0, ended);
    const to = Math.min(limit, this.#spans[0]?.start ?? limit);
    if (this.#done < to) {
      shown += textBetween(this.#done, to);
      this.#done = to;
    }
    return shown;
  }
}

const linesOf = (value: string): string[] =>
  value.includes('\n') ? value.split(/\r?\n/).map((line) => line.trim()) : [];

/** Returns the notations in which programs print a value: in URLs, in JSON and in Basic authentication. */
function formsOf(value: string): string[] {
  if (value.length < SHORTEST) return [];
  return [
    value,
    encodeURIComponent(value.toWellFormed()),
    JSON.stringify(value).slice(1, -1),
    Buffer.from(value).toString('base64'),
  ];
}
