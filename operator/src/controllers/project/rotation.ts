/** Compares the numbers in spec.rotation with those of the present credentials, and reports a rotation. */
import type { Context } from './context.js';

/** Type of the condition that reports a rotation. It does not count for the readiness of the project. */
export const CREDENTIALS_CURRENT = 'CredentialsCurrent';

/** True if the requested number differs from the recorded one. A removed number requests nothing. */
export const isRequested = (requested: number | undefined, record: string | undefined) =>
  requested !== undefined && String(requested) !== record;

export const recorded = (requested: number | undefined, record: string | undefined) =>
  requested === undefined ? record : String(requested);

export function reportRotated({ deps, project }: Context, what: string): void {
  deps.events.record(project, 'Normal', 'Rotated', what);
}
