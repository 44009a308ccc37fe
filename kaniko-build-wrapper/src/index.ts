/**
 * Builds a frontend project or the image of an app: clones, installs and builds in sealed processes. In: a request,
 * event handlers and a signal. Out: the folder of the output, or the image. The operator calls it. It knows nothing
 * about Kubernetes and hosting.
 */

export { type Credentials, fetchCredentials } from './credentials.js';
export { type EgressProxy, startEgressProxy } from './egress/proxy.js';
export {
  type CloneOrder,
  CONTEXT,
  type Ending,
  IMAGE,
  markOf,
  ORDER_FILE,
  type PublishOrder,
  readEnding,
  WORKSPACE,
} from './pod/order.js';
export { trimCache } from './project-cache.js';
export { Redactor } from './redactor.js';
export {
  type BuildEvents,
  BuildFailed,
  type BuildLimits,
  type BuildRequest,
  type BuildResult,
  type BuildSettings,
  type Detected,
  Refused,
  type Step,
  Unneeded,
} from './request.js';
export { runBuild } from './run-build.js';
export { type FailedImage, type ImageBuilder, type ImageContext, runImageBuild } from './run-image-build.js';
export { secretValuesOf } from './secret-values.js';
export { smallFile } from './small-file.js';
export { missingWall } from './walls.js';
