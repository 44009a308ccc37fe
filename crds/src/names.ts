/**
 * Names of the API group and of annotations on its objects. A project's ref is the `metadata.name` of its Project, a
 * DNS label.
 */
export const GROUP = 'slipway.dev';
export const VERSION = 'v1alpha1';
export const API_VERSION = `${GROUP}/${VERSION}`;

/** The longest ref. With it, `p-<ref>` and the role names of earlier releases have less than 63 characters. */
export const REF_MAX_LENGTH = 39;

/** Finalizer of a Project. It stays until the Project's engine has removed everything that garbage collection can't. */
export const FINALIZER = 'slipway.dev/engine';

/** Matches an object name in the Kubernetes API (RFC 1123), as a part of other patterns. */
export const DNS_LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?';
/** Annotation of a Project, with any value. The operator clears the build cache and then removes the annotation. */
export const ANNOTATION_CLEAR_BUILD_CACHE = 'slipway.dev/clear-build-cache';
/**
 * Annotation of a Project. Its value is a day in UTC, and the seconds of build time on that day. The operator writes
 * it.
 */
export const ANNOTATION_BUILD_TIME = 'slipway.dev/build-time';

/**
 * Annotation of a Project without an account that owns it. Its value is the address in spec.owner. Only the API knows
 * the accounts, so the API sets the annotation.
 */
export const ANNOTATION_UNOWNED = 'slipway.dev/unowned';

/** The message for the Ready condition and the Event of a Project that no account owns. */
export const unownedMessage = (ref: string, owner: string) =>
  `no account owns it: none had the address ${owner} (verified, where the platform sends mail) ` +
  'when spec.owner named it. Set spec.owner to the address of an account, or let an administrator assign it: ' +
  `POST /admin/projects/${ref}/owner`;
