export {
  KubeClient,
  type KubeClientOptions,
  type KubeRequest,
  type RequestObserver,
} from './client.js';
export { AnswerTooLarge, isConflict, isGone, isInvalid, isNotFound, KubeError, Unanswered } from './errors.js';
export { type Change, Informer, type InformerOptions, isNewer } from './informer.js';
export { type KubeConfig, loadKubeConfig } from './kubeconfig.js';
export type { KubeObject, Secret } from './objects.js';
