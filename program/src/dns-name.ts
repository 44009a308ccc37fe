/** DNS labels of RFC 1123 with dots between them, in lower case. */
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?([.][a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/;
const MOST_CHARACTERS = 253;

/**
 * True for a host name in lower case, and for a name that Kubernetes accepts for objects. Such a name is a safe name of
 * a file, because neither `..` nor `a/b` is one.
 */
export const isDnsName = (name: string): boolean => name.length <= MOST_CHARACTERS && NAME.test(name);
