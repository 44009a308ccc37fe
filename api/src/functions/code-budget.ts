/**
 * The bytes of code that a project's functions may have together: all of it is kept by the Kubernetes API. In: the
 * functions as they are, and code to write. Out: a refusal that names the limit. The operator holds the same limit for
 * what kubectl applies.
 */
import { FUNCTION_BUDGET } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import type { SeenFunction, SizedFunction } from './function-resources.js';

const MIB = 1024 * 1024;

/** `replaced`: the function whose code it is to be. Less code than that has now always fits. */
export function checkCodeBudget(functions: readonly SizedFunction[], code: string, replaced?: SeenFunction): void {
  const { codeBytesOfProject } = FUNCTION_BUDGET;
  const before = functions.find(({ metadata }) => metadata.uid === replaced?.metadata.uid)?.codeBytes ?? 0;
  const own = Buffer.byteLength(code);
  const bytes = functions.reduce((sum, { codeBytes }) => sum + codeBytes, own - before);
  if (bytes <= codeBytesOfProject || own <= before) return;
  const limit = `${codeBytesOfProject / MIB} MiB`;
  throw new Problem(
    'code_limit',
    `The code of the project's functions would have ${bytes} bytes, and may have ${limit}. Shorten or delete some first.`,
    { errors: [{ field: 'code', message: `exceeds the ${limit} of all functions of the project` }] },
  );
}
