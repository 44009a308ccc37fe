/** Chooses the function that `/rpc/name` means by the names of its arguments, or says as PostgREST does why it can't. */
import type { Catalogue, FunctionRow } from '../catalogue/catalogue.js';
import { RestError } from '../errors.js';
import { closest } from './similar.js';

export interface CallPlan {
  routine: FunctionRow;
  /** The whole body is the only, unnamed parameter. */
  wholeBody: boolean;
}

export function planCall(
  catalogue: Catalogue,
  schema: string,
  name: string,
  names: string[],
  hasBody: boolean,
): CallPlan {
  const overloads = catalogue.overloads(schema, name);
  const named = overloads.filter((routine) => accepts(routine, names));
  const whole = hasBody ? overloads.filter(takesWholeBody) : [];
  const candidates = named.length > 0 ? named : whole;
  const [routine, second] = candidates;
  if (!routine) throw noFunction(catalogue, schema, name, names, hasBody);
  if (second) throw ambiguous(candidates);
  return { routine, wholeBody: named.length === 0 };
}

function accepts({ parameters }: FunctionRow, names: string[]): boolean {
  const known = parameters.map((parameter) => parameter.name);
  if (known.includes('')) return false;
  return (
    names.every((name) => known.includes(name)) &&
    parameters.every(({ name, required, variadic }) => !required || variadic || names.includes(name))
  );
}

function takesWholeBody({ parameters }: FunctionRow): boolean {
  const [only] = parameters;
  return parameters.length === 1 && only?.name === '' && (only.type === 'json' || only.type === 'jsonb');
}

function noFunction(catalogue: Catalogue, schema: string, name: string, names: string[], hasBody: boolean): RestError {
  const list = names.join(', ');
  const withNames =
    names.length === 0 ? ' without parameters' : ` with parameter${names.length > 1 ? 's' : ''} ${list}`;
  const orWhole = hasBody ? ' or with a single unnamed json/jsonb parameter' : '';
  return new RestError(
    404,
    'PGRST202',
    `Could not find the function ${schema}.${name}${names.length === 0 ? ' without parameters' : `(${list})`} in the schema cache`,
    {
      details: `Searched for the function ${schema}.${name}${withNames}${orWhole}, but no matches were found in the schema cache.`,
      hint: meant(catalogue, schema, name, names),
    },
  );
}

function meant(catalogue: Catalogue, schema: string, name: string, names: string[]): string | null {
  const signature = (list: string[]) => `(${[...list].sort().join(', ')})`;
  const overloads = catalogue.overloads(schema, name);
  const found =
    overloads.length > 0
      ? closest(
          signature(names),
          overloads.map(({ parameters }) => signature(parameters.map((each) => each.name))),
          0.33,
        )
      : closest(
          name,
          [...catalogue.functions.values()].flatMap((rows) => (rows[0]?.schema === schema ? [rows[0].name] : [])),
          0.75,
        );
  if (found === undefined) return null;
  return `Perhaps you meant to call the function ${schema}.${overloads.length > 0 ? name : ''}${found}`;
}

function ambiguous(candidates: FunctionRow[]): RestError {
  const shown = candidates.map(
    ({ schema, name, parameters }) =>
      `${schema}.${name}(${parameters.map((each) => `${each.name} => ${each.type}`).join(', ')})`,
  );
  return new RestError(300, 'PGRST203', `Could not choose the best candidate function between: ${shown.join(', ')}`, {
    hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
  });
}
