/** Writes a function call whose rows are `pgrst_source`. */
import type { CallPlan } from '../plan/call-plan.js';
import type { Value } from '../request/grammar.js';
import { arrayLiteral, identifier, qualified, type Writer } from './writer.js';

/** Arguments of a query string, or the names of those that Postgres reads from the body. */
export type Arguments = { from: 'query'; values: { name: string; value: Value }[] } | { from: 'body'; names: string[] };

export function callSql(writer: Writer, { routine, wholeBody }: CallPlan, args: Arguments): string {
  const { parameters, returns } = routine;
  const called = (list: string[]) => `${qualified(routine)}(${list.join(', ')})`;
  // The call is among the columns, because a record without column definitions can't be in FROM. Without `offset`
  // Postgres could inline the call, and run it each time its result is used.
  const call = (list: string[]) =>
    returns === 'composite' ? called(list) : `(select ${called(list)} as pgrst_scalar offset 0)`;
  const select = 'select pgrst_call.* from';
  if (wholeBody) return `${select} ${call([`${writer.add({ from: 'body' })}::${parameters[0]?.type}`])} as pgrst_call`;
  if (args.from === 'query') return `${select} ${call(queryArguments(writer, routine, args.values))} as pgrst_call`;
  const used = parameters.filter(({ name }) => args.names.includes(name));
  if (used.length === 0) return `${select} ${call([])} as pgrst_call`;
  const typed = used.map(({ name, type }) => `${identifier(name)} ${type}`).join(', ');
  const list = used.map(
    ({ name, variadic }) => `${variadic ? 'variadic ' : ''}${identifier(name)} := pgrst_args.${identifier(name)}`,
  );
  const record = `json_to_record(${writer.add({ from: 'body' })}::json) as pgrst_args(${typed})`;
  return `${select} ${record}, lateral ${call(list)} as pgrst_call`;
}

function queryArguments(
  writer: Writer,
  { parameters }: CallPlan['routine'],
  values: { name: string; value: Value }[],
): string[] {
  return parameters.flatMap(({ name, type, variadic }) => {
    const matching = values.filter((each) => each.name === name);
    const last = matching.at(-1);
    if (!last) return [];
    const value = variadic
      ? writer.constant(arrayLiteral(matching.map((each) => each.value.text)))
      : writer.bind(last.value);
    return [`${variadic ? 'variadic ' : ''}${identifier(name)} := ${value}::${type}`];
  });
}
