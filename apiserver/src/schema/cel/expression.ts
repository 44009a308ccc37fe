import type { Environment } from '@marcbachmann/cel-js';
import { patternProblem } from '../patterns.js';
import { CostExceeded, charge, isExhausted } from './cost.js';
import { LINEAR_MATCHES } from './functions.js';

/** A type-checked expression. */
export interface Expression {
  usesOldSelf: boolean;
  /** Evaluates the expression. Throws an Error with cel-go's message. */
  evaluate(variables: Record<string, unknown>): unknown;
}

/** The reason why an expression can't be compiled, in cel-go's format with the position underlined. */
export class CompilationError extends Error {}
/** Error of an expression that is valid but has the wrong type. */
class WrongTypeError extends Error {}

/** The nodes of the engine's parser. Its types are incomplete, and its version is pinned. */
interface Node {
  op: string;
  args: unknown;
  pos: number;
  start: number;
  end: number;
  input: string;
  meta: { alternate?: Node; macro?: { args?: unknown } };
  clone(operator: unknown, args: unknown): Node;
  setMeta(key: string, value: unknown): Node;
}

const LONGEST_EXPRESSION = 32_768;

export function compileExpression(environment: Environment, source: string, type: 'bool' | 'string'): Expression {
  if (source.length > LONGEST_EXPRESSION) throw new CompilationError(`longer than ${LONGEST_EXPRESSION} characters`);
  const parsed = parse(environment, source);
  const usesOldSelf = prepare(parsed.ast as unknown as Node);
  const checked = parsed.check();
  if (!checked.valid) throw new CompilationError(checkProblem(checked.error as unknown as EngineError, source));
  if (checked.type !== type && checked.type !== 'dyn') throw new WrongTypeError(`must evaluate to a ${type}`);
  return {
    usesOldSelf,
    evaluate(variables) {
      try {
        const value = parsed(variables);
        // An `||` or `exists` may have swallowed the error.
        if (isExhausted()) throw new CostExceeded();
        return value;
      } catch (error) {
        if (error instanceof CostExceeded || isExhausted()) throw new CostExceeded();
        throw new Error(evaluationProblem(error as EngineError));
      }
    },
  };
}

function parse(environment: Environment, source: string) {
  try {
    return environment.parse(source);
  } catch (error) {
    const { range, summary, message } = error as EngineError;
    throw new CompilationError(underlined(source, range?.start ?? 0, `Syntax error: ${summary ?? message}`));
  }
}

/** Iteration that charges the meter for all elements before the first one is iterated. */
const chargedIteration = {
  name: 'charged',
  check: (checker: { check(node: unknown, context: unknown): unknown }, node: Node, context: unknown) =>
    checker.check(node.args, context),
  evaluate: (evaluator: { run(node: unknown, context: unknown): unknown }, node: Node, context: unknown) => {
    const elements = evaluator.run(node.args, context) as { length?: number; size?: number };
    charge(1 + (elements.length ?? elements.size ?? Object.keys(elements).length));
    return elements;
  },
};

/**
 * Adds limits to iteration and matching in the whole tree. Rejects functions that Kubernetes' CEL does not have.
 * Returns true if the expression uses oldSelf.
 */
function prepare(node: Node): boolean {
  if (node.op === 'id' && node.args === 'cel') throw new CompilationError(undeclared(node, 'cel', node.start));
  if (node.op === 'id') return node.args === 'oldSelf';
  const children = childrenOf(node);
  if (node.op === 'comprehension') boundIteration(node);
  if (node.op === 'rcall' || node.op === 'call') useLinearMatcher(node);
  return children.map(prepare).some(Boolean);
}

function childrenOf(node: Node): Node[] {
  const { alternate, macro } = node.meta;
  if (alternate) return [alternate];
  if (macro?.args) return nodesIn(macro.args);
  if (node.op === 'comprehension') {
    const { iterable, init, step } = node.args as Record<string, Node>;
    return nodesIn([iterable, init, step]);
  }
  return nodesIn(node.args);
}

function nodesIn(value: unknown): Node[] {
  if (Array.isArray(value)) return value.flatMap(nodesIn);
  const isNode = typeof value === 'object' && value !== null && 'op' in value && 'meta' in value;
  return isNode ? [value as Node] : [];
}

function boundIteration(node: Node): void {
  const loop = node.args as { iterable: Node };
  loop.iterable = loop.iterable.clone(chargedIteration, loop.iterable).setMeta('async', false);
}

function useLinearMatcher(node: Node): void {
  const call = node.args as unknown[];
  if (call[0] !== 'matches') return;
  call[0] = LINEAR_MATCHES;
  const pattern = (call.at(-1) as Node[]).at(-1);
  if (pattern?.op !== 'value' || typeof pattern.args !== 'string') return;
  if (patternProblem(pattern.args) === undefined) return;
  throw new CompilationError(underlined(node.input, pattern.start, 'invalid matches argument'));
}

interface EngineError extends Error {
  code?: string;
  summary?: string;
  range?: { start: number; end: number };
  node?: Node;
}

const undeclared = (node: Node, name: string, at: number) =>
  underlined(node.input, at, `undeclared reference to '${name}' (in container '')`);

/** Returns the engine's error in cel-go's format. The engine reports an expression's start, and cel-go its operator. */
function checkProblem({ code, summary = '', node, range }: EngineError, source: string): string {
  const start = range?.start ?? 0;
  if (!node) return underlined(source, start, summary);
  if (code === 'no_such_key') {
    return underlined(source, Math.max(start - 1, 0), `undefined field '${summary.replace('No such key: ', '')}'`);
  }
  if (code === 'unknown_variable') return undeclared(node, summary.replace('Unknown variable: ', ''), start);
  const overload = /^no such overload: (.+) (\S+) (.+)$/.exec(summary);
  if (overload) {
    const [left] = node.args as Node[];
    const at = source.indexOf(node.op, left?.end ?? start);
    const types = [overload[1], overload[3]].map((type) => goType(type ?? '')).join(', ');
    return underlined(source, at, `found no matching overload for '_${overload[2]}_' applied to '(${types})'`);
  }
  if (node.op === 'rcall') {
    const [name, receiver] = node.args as [string, Node];
    const called = name === LINEAR_MATCHES ? 'matches' : name;
    return underlined(
      source,
      source.indexOf('(', receiver.end),
      `undeclared reference to '${called}' (in container '')`,
    );
  }
  return underlined(source, start, summary);
}

const goType = (name: string) =>
  name.replaceAll('optional<', 'optional_type<').replaceAll('<', '(').replaceAll('>', ')');

function underlined(source: string, position: number, problem: string): string {
  const before = source.slice(0, position).split('\n');
  const column = before.at(-1)?.length ?? 0;
  const line = source.split('\n')[before.length - 1] ?? '';
  const place = `${before.length}:${column + 1}`;
  return `compilation failed: ERROR: <input>:${place}: ${problem}\n | ${line}\n | ${'.'.repeat(column)}^`;
}

function evaluationProblem({ summary, message }: EngineError): string {
  const text = summary ?? message;
  const index = /index out of bounds, index (-?\d+)/.exec(text);
  if (index) return `index out of bounds: ${index[1]}`;
  if (text.startsWith('No such key: ')) return `no such key: ${text.slice('No such key: '.length)}`;
  return text === 'modulo by zero' ? 'modulus by zero' : text;
}
