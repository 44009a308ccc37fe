/** Writes a call of a function as the rows of `pgrst_source`. */
import type { CallPlan } from '../plan/call-plan.js';
import type { Value } from '../request/grammar.js';
import { arrayLiteral, identifier, qualified, type Writer } from './writer.js';

/** Arguments of a query string by name; of a body they are read out of it by Postgres. */
export type Arguments = { from: 'query'; values: { name: string; value: Value }[] } | { from: 'body'; names: string[] };

export function callSql(writer: Writer, { routine, wholeBody }: CallPlan, given: Arguments): string {
  const { parameters, returns } = routine;
  const called = (list: string[]) => `${qualified(routine)}(${list.join(', ')})`;
  // Among the columns, as a record without columns of its own can't be where rows come from. Without `offset` Postgres
  // would write the call to wherever its result is used, and run it each time.
  const call = (list: string[]) =>
    returns === 'composite' ? called(list) : `(select ${called(list)} as pgrst_scalar offset 0)`;
  const select = 'select pgrst_call.* from';
  if (wholeBody) return `${select} ${call([`${writer.add({ from: 'body' })}::${parameters[0]?.type}`])} as pgrst_call`;
  if (given.from === 'query') return `${select} ${call(queryArguments(writer, routine, given.values))} as pgrst_call`;
  const used = parameters.filter(({ name }) => given.names.includes(name));
  if (used.length === 0) return `${select} ${call([])} as pgrst_call`;
  const typed = used.map(({ name, type }) => `${identifier(name)} ${type}`).join(', ');
  const list = used.map(
    ({ name, variadic }) => `${variadic ? 'variadic ' : ''}${identifier(name)} := pgrst_args.${identifier(name)}`,
  );
  return `${select} json_to_record(${writer.add({ from: 'body' })}::json) as pgrst_args(${typed}), lateral ${call(list)} as pgrst_call`;
}

function queryArguments(
  writer: Writer,
  { parameters }: CallPlan['routine'],
  values: { name: string; value: Value }[],
): string[] {
  return parameters.flatMap(({ name, type, variadic }) => {
    const given = values.filter((each) => each.name === name);
    const last = given.at(-1);
    if (!last) return [];
    const value = variadic
      ? writer.constant(arrayLiteral(given.map((each) => each.value.text)))
      : writer.bind(last.value);
    return [`${variadic ? 'variadic ' : ''}${identifier(name)} := ${value}::${type}`];
  });
}
