/** For tests: the members of the types of Kubernetes, by client-node's models. */
import * as models from '@kubernetes/client-node';

/** `type`: the API's name with its version, `V1PodSpec`. Undefined: the type has no members. */
export const membersOf = (type: string) =>
  (models as unknown as Record<string, { getAttributeTypeMap?(): { baseName: string; type: string }[] } | undefined>)[
    type
  ]?.getAttributeTypeMap?.();
