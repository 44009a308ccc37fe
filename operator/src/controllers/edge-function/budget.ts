/**
 * Checks that an EdgeFunction's code fits the limits of its project and of the owner's account. In: the function, and
 * the sizes of all other functions from the cache. Out: the exceeded limit, and what to do. The check runs before a
 * version is made, so code that was deployed before the limit existed is still served.
 */
import { type EdgeFunction, FUNCTION_BUDGET, normalAddress } from '@slipway/crds';
import { refOfNamespace } from '@slipway/installation';
import { BY_NAMESPACE, type FunctionReconcilerDeps } from './resources.js';

const MIB = 1024 * 1024;

/**
 * Returns the reason why the code is too large. `bytesBefore`: size of the newest version. Code of at most that size
 * always fits.
 */
export function whyTooMuch(
  deps: FunctionReconcilerDeps,
  object: EdgeFunction,
  bytesBefore: number,
): string | undefined {
  const { functionsOfProject, codeBytesOfProject, codeBytesOfAccount } = FUNCTION_BUDGET;
  const { namespace = '', uid } = object.metadata;
  const ofProject = deps.functions.find(BY_NAMESPACE, namespace).filter(({ metadata }) => metadata.uid !== uid);
  const isNew = object.status?.newestVersion === undefined;
  if (isNew && ofProject.filter((other) => other.status?.newestVersion !== undefined).length >= functionsOfProject) {
    return `a project has at most ${functionsOfProject} functions: delete some`;
  }
  const own = Buffer.byteLength(object.spec.code);
  if (own <= bytesBefore) return undefined;
  const bytes = own + bytesOf(ofProject);
  if (bytes > codeBytesOfProject) {
    const limit = `${codeBytesOfProject / MIB} MiB`;
    return `the code of the project's functions has ${bytes} bytes, and may have ${limit}: shorten or delete some`;
  }
  const account = accountOf(deps, namespace);
  if (account === undefined) return undefined;
  const isOfAccount = ({ metadata }: EdgeFunction) =>
    metadata.uid !== uid && accountOf(deps, metadata.namespace) === account;
  if (own + bytesOf(deps.functions.list().filter(isOfAccount)) <= codeBytesOfAccount) return undefined;
  return `the code of all functions of the account may have ${codeBytesOfAccount / MIB} MiB: shorten or delete some`;
}

function accountOf({ projects }: FunctionReconcilerDeps, namespace: string | undefined): string | undefined {
  const owner = projects.get(refOfNamespace(namespace) ?? '')?.spec.owner;
  return owner && normalAddress(owner);
}

const bytesOf = (functions: readonly { codeBytes?: number }[]) =>
  functions.reduce((sum, { codeBytes = 0 }) => sum + codeBytes, 0);
