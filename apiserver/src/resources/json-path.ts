/**
 * The JSONPath of printer columns: `.spec.type`, `.status.conditions[?(@.type=="Ready")].status`, `.a['b.c'][0]`,
 * `.list[*].name`. Each column's path is compiled once into a function that returns the values in an object.
 */
type Step = (values: unknown[]) => unknown[];

const TOKENS = [
  /\.((?:\\.|[^.[\]\\])+)/,
  /\[(-?\d+)\]/,
  /\[\*\]/,
  /\['((?:[^'\\]|\\.)*)'\]/,
  /\["((?:[^"\\]|\\.)*)"\]/,
  /\[\?\(\s*@((?:\.[\w-]+)+)\s*(==|!=)\s*(?:"([^"]*)"|'([^']*)'|([\w.-]+))\s*\)\]/,
];
const TOKEN = new RegExp(TOKENS.map(({ source }) => source).join('|'), 'y');

/** Compiles a path. Throws if the path is malformed. */
export function compileJsonPath(path: string): (object: unknown) => unknown[] {
  const text = path.startsWith('.') || path.startsWith('[') ? path : `.${path}`;
  const steps: Step[] = [];
  // A path within a condition is compiled recursively, so each call needs its own position.
  const token = new RegExp(TOKEN);
  while (token.lastIndex < text.length) {
    const at = token.lastIndex;
    const match = token.exec(text);
    if (!match) throw new Error(`unrecognized JSONPath at ${JSON.stringify(text.slice(at))}`);
    steps.push(stepOf(match));
  }
  return (object) => steps.reduce<unknown[]>((values, step) => step(values), [object]);
}

function stepOf(match: RegExpExecArray): Step {
  const [, field, index, single, double, condition, operator] = match;
  const name = field?.replace(/\\(.)/g, '$1') ?? single ?? double;
  if (name === '*' || match[0] === '[*]') return (values) => values.flatMap(children);
  if (name !== undefined) return (values) => values.flatMap((value) => property(value, name));
  if (index !== undefined)
    return (values) => values.flatMap((value) => (Array.isArray(value) ? value.slice(Number(index)).slice(0, 1) : []));
  const wanted = match[7] ?? match[8] ?? match[9];
  const inner = compileJsonPath(condition as string);
  return (values) =>
    values.flatMap(children).filter((value) => (String(inner(value)[0]) === wanted) === (operator === '=='));
}

const property = (value: unknown, name: string): unknown[] =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? [(value as Record<string, unknown>)[name]]
    : [];
const children = (value: unknown): unknown[] =>
  typeof value === 'object' && value !== null ? Object.values(value) : [];
