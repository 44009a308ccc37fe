/**
 * Chooses the function of `/rpc/name` by the names of the arguments. If no function or more than one matches, it throws
 * PostgREST's error.
 */
import type { Catalogue, FunctionRow } from '../catalogue/catalogue.js';
import { RestError } from '../errors.js';
import type { Body } from '../request/body.js';
import { closest } from './similar.js';

export interface CallPlan {
  routine: FunctionRow;
  /** True if the whole body is the value of the only, unnamed parameter. */
  wholeBody: boolean;
}

/** Request of a function. */
interface Called {
  schema: string;
  name: string;
  /** Names of the arguments. */
  names: string[];
  /** Type of a POST's body; undefined for a GET. */
  bodyType: Body['type'] | undefined;
}

export function planCall(catalogue: Catalogue, call: Called): CallPlan {
  const { schema, name, names, bodyType } = call;
  const overloads = catalogue.overloads(schema, name);
  const passed = new Set(names);
  const named = overloads.filter((routine) => accepts(routine, passed, bodyType));
  const whole = overloads.filter((routine) => takesWholeBody(routine, bodyType));
  const candidates = named.length > 0 ? named : whole;
  const [routine, second] = candidates;
  if (!routine) throw noFunction(catalogue, call);
  if (second) throw ambiguous(candidates);
  return { routine, wholeBody: isUnnamed(routine) };
}

/** True if the only parameter has no name: the whole body is its value, also with the empty name, as in PostgREST. */
const isUnnamed = ({ parameters }: FunctionRow) => parameters.length === 1 && parameters[0]?.name === '';

function accepts(routine: FunctionRow, passed: Set<string>, bodyType: Body['type'] | undefined): boolean {
  const { parameters } = routine;
  if (parameters.length === 0) return passed.size === 0 && (bodyType ?? 'json') === 'json';
  let accepted = 0;
  for (const { name, required } of parameters) {
    if (name === '' && (bodyType === undefined || !isUnnamed(routine))) return false;
    if (passed.has(name)) accepted++;
    else if (required) return false;
  }
  return accepted === passed.size;
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

function noFunction(catalogue: Catalogue, call: Called): RestError {
  const { schema, name, names, bodyType } = call;
  const isWhole = bodyType !== undefined && bodyType !== 'json';
  const list = names.join(', ');
  const withNames =
    names.length === 0 ? ' without parameters' : ` with parameter${names.length > 1 ? 's' : ''} ${list}`;
  const orWhole = bodyType === 'json' ? ' or with a single unnamed json/jsonb parameter' : '';
  const searched = isWhole ? ` with a single unnamed ${bodyType} parameter` : `${withNames}${orWhole}`;
  const called = isWhole ? '' : names.length === 0 ? ' without parameters' : `(${list})`;
  return new RestError(404, 'PGRST202', `Could not find the function ${schema}.${name}${called} in the schema cache`, {
    details: `Searched for the function ${schema}.${name}${searched}, but no matches were found in the schema cache.`,
    hint: isWhole ? null : meant(catalogue, call),
  });
}

/**
 * Maximum number of functions that are compared for an error. A catalogue may have thousands of functions with one
 * name, each with a hundred parameters.
 */
const MOST_SHOWN = 100;

function meant(catalogue: Catalogue, { schema, name, names }: Called): string | null {
  const signature = (list: string[]) => `(${[...list].sort().join(', ')})`;
  const overloads = catalogue.overloads(schema, name);
  const similar =
    overloads.length > 0
      ? closest(
          signature(names),
          overloads.slice(0, MOST_SHOWN).map(({ parameters }) => signature(parameters.map((each) => each.name))),
          0.33,
        )
      : closest(
          name,
          [...catalogue.functions.values()].flatMap((rows) => (rows[0]?.schema === schema ? [rows[0].name] : [])),
          0.75,
        );
  if (similar === undefined) return null;
  return `Perhaps you meant to call the function ${schema}.${overloads.length > 0 ? name : ''}${similar}`;
}

function ambiguous(candidates: FunctionRow[]): RestError {
  const shown = candidates
    .slice(0, MOST_SHOWN)
    .map(
      ({ schema, name, parameters }) =>
        `${schema}.${name}(${parameters.map((each) => `${each.name} => ${each.type}`).join(', ')})`,
    );
  return new RestError(300, 'PGRST203', `Could not choose the best candidate function between: ${shown.join(', ')}`, {
    hint: 'Try renaming the parameters or the function itself in the database so function overloading can be resolved',
  });
}
