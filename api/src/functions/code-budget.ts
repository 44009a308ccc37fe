/**
 * Limits the bytes of code in a project's functions, because the Kubernetes API stores all of it. In: the stored
 * functions, and the code to write. Out: nothing, or an error that names the limit. The operator applies the same limit
 * to functions from kubectl.
 */
import { FUNCTION_BUDGET } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import type { SeenFunction, SizedFunction } from './function-resources.js';

const MIB = 1024 * 1024;

/**
 * Rejects code beyond the limit. `replaced` is the function that gets the code; code no larger than it has always fits.
 */
export function checkCodeBudget(functions: readonly SizedFunction[], code: string, replaced?: SeenFunction): void {
  const { codeBytesOfProject } = FUNCTION_BUDGET;
  const before = functions.find(({ metadata }) => metadata.uid === replaced?.metadata.uid)?.codeBytes ?? 0;
  const own = Buffer.byteLength(code);
  const bytes = functions.reduce((sum, { codeBytes }) => sum + codeBytes, own - before);
  if (bytes <= codeBytesOfProject || own <= before) return;
  const limit = `${codeBytesOfProject / MIB} MiB`;
  throw new Problem(
    'code_limit',
    `The code of the project's functions would have ${bytes} bytes; the limit is ${limit}. ` +
      'Shorten or delete some first.',
    { errors: [{ field: 'code', message: `exceeds the ${limit} bytes that all functions of the project may have` }] },
  );
}
