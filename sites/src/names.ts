/** Checks names that become parts of file paths: refs of projects, and names of builds. */
import { isDnsName } from '@slipway/program';

/** Returns `name` if it is valid. Throws otherwise, for example for `..`, which would lead out of the folder. */
export function checkedName(name: string): string {
  if (isDnsName(name)) return name;
  throw new Error(`${JSON.stringify(name.slice(0, 300))} is not a valid name of a project or a build`);
}
