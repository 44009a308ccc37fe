import { RE2JS } from 're2js';

/**
 * Compiles a pattern. Authors of definitions write the patterns, and users send the texts. So patterns run on RE2, in
 * linear time; Kubernetes has the same syntax. Throws an Error with the parser's message if `pattern` is malformed.
 */
export function compilePattern(pattern: string): (text: string) => boolean {
  const expression = RE2JS.compile(pattern);
  return (text) => expression.test(text);
}

/** Returns the error of a malformed `pattern` with the message of Go's regexp/syntax. Undefined if it is valid. */
export function patternProblem(pattern: string): string | undefined {
  try {
    compilePattern(pattern);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
