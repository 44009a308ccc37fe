/**
 * Whether an EdgeFunction's code fits what its project, and its owner's account, may keep. In: the function as it is
 * now, and the sizes of all others from the cache. Out: the limit that is exceeded, and what to do. Asked before a
 * version is made, so that what was kept before a limit existed goes on being served.
 */
import { type EdgeFunction, FUNCTION_BUDGET } from '@slipway/crds';
import { BY_NAMESPACE, type FunctionReconcilerDeps, refOf } from './resources.js';

const MIB = 1024 * 1024;

/** `bytesBefore`: of its newest version. Code that is no longer than that always fits. */
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
    return `the code of the project's functions has ${bytes} bytes, and may have ${codeBytesOfProject / MIB} MiB: shorten or delete some`;
  }
  const owner = deps.projects.get(refOf(namespace) ?? '')?.spec.owner;
  if (owner === undefined) return undefined;
  const isOfAccount = ({ metadata }: EdgeFunction) =>
    metadata.uid !== uid && deps.projects.get(refOf(metadata.namespace) ?? '')?.spec.owner === owner;
  if (own + bytesOf(deps.functions.list().filter(isOfAccount)) <= codeBytesOfAccount) return undefined;
  return `the code of all functions of the account may have ${codeBytesOfAccount / MIB} MiB: shorten or delete some`;
}

const bytesOf = (functions: readonly { codeBytes?: number }[]) =>
  functions.reduce((sum, { codeBytes = 0 }) => sum + codeBytes, 0);
