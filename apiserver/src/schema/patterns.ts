import { RE2JS } from 're2js';

/**
 * Patterns come from the authors of definitions and meet what users send, so they run on RE2, in linear time; it is
 * also the dialect that Kubernetes speaks. Throws an Error with the parser's words when `pattern` is malformed.
 */
export function compilePattern(pattern: string): (text: string) => boolean {
  const expression = RE2JS.compile(pattern);
  return (text) => expression.test(text);
}

/** Why `pattern` is malformed, in the words of Go's regexp/syntax; undefined when it is sound. */
export function patternProblem(pattern: string): string | undefined {
  try {
    compilePattern(pattern);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
