/**
 * Chooses the function that `/rpc/name` means by the names of its arguments, or says as PostgREST does why it can't.
 */
import type { Catalogue, FunctionRow } from '../catalogue/catalogue.js';
import { RestError } from '../errors.js';
import type { Body } from '../request/body.js';
import { closest } from './similar.js';

export interface CallPlan {
  routine: FunctionRow;
  /** The whole body is the only, unnamed parameter. */
  wholeBody: boolean;
}

/** `bodyType`: of a POST's body; undefined for a GET. */
export function planCall(
  catalogue: Catalogue,
  schema: string,
  name: string,
  names: string[],
  bodyType: Body['type'] | undefined,
): CallPlan {
  const overloads = catalogue.overloads(schema, name);
  const named = overloads.filter((routine) => accepts(routine, names, bodyType));
  const whole = overloads.filter((routine) => takesWholeBody(routine, bodyType));
  const candidates = named.length > 0 ? named : whole;
  const [routine, second] = candidates;
  if (!routine) throw noFunction(catalogue, schema, name, names, bodyType);
  if (second) throw ambiguous(candidates);
  return { routine, wholeBody: isUnnamed(routine) };
}

/**
 * True if the only parameter has no name: the whole body is its value, also when it is given by the empty name, as in
 * PostgREST.
 */
const isUnnamed = ({ parameters }: FunctionRow) => parameters.length === 1 && parameters[0]?.name === '';

function accepts(routine: FunctionRow, names: string[], bodyType: Body['type'] | undefined): boolean {
  const { parameters } = routine;
  if (parameters.length === 0) return names.length === 0 && (bodyType ?? 'json') === 'json';
  const known = parameters.map((parameter) => parameter.name);
  if (known.includes('') && (bodyType === undefined || !isUnnamed(routine))) return false;
  return (
    names.every((name) => known.includes(name)) &&
    parameters.every(({ name, required }) => !required || names.includes(name))
  );
}

const WHOLE_TYPES: Record<Body['type'], readonly string[]> = {
  json: ['json', 'jsonb'],
  text: ['text'],
  xml: ['xml'],
  bytea: ['bytea'],
};

function takesWholeBody(routine: FunctionRow, bodyType: Body['type'] | undefined): boolean {
  if (bodyType === undefined || !isUnnamed(routine)) return false;
  return WHOLE_TYPES[bodyType].includes(routine.parameters[0]?.type ?? '');
}

function noFunction(
  catalogue: Catalogue,
  schema: string,
  name: string,
  names: string[],
  bodyType: Body['type'] | undefined,
): RestError {
  const isWhole = bodyType !== undefined && bodyType !== 'json';
  const list = names.join(', ');
  const withNames =
    names.length === 0 ? ' without parameters' : ` with parameter${names.length > 1 ? 's' : ''} ${list}`;
  const orWhole = bodyType === 'json' ? ' or with a single unnamed json/jsonb parameter' : '';
  const searched = isWhole ? ` with a single unnamed ${bodyType} parameter` : `${withNames}${orWhole}`;
  const called = isWhole ? '' : names.length === 0 ? ' without parameters' : `(${list})`;
  return new RestError(404, 'PGRST202', `Could not find the function ${schema}.${name}${called} in the schema cache`, {
    details: `Searched for the function ${schema}.${name}${searched}, but no matches were found in the schema cache.`,
    hint: isWhole ? null : meant(catalogue, schema, name, names),
  });
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
