/** Numbers in spec.rotation against those that credentials were made for, and how a rotation is told. */
import type { Context } from './context.js';

/** Tells how far a rotation is; the project is as ready without it. */
export const CREDENTIALS_CURRENT = 'CredentialsCurrent';

/** Another number than that of the credential there is. A number that is taken away asks for nothing. */
export const isAsked = (asked: number | undefined, record: string | undefined) =>
  asked !== undefined && String(asked) !== record;

export const recorded = (asked: number | undefined, record: string | undefined) =>
  asked === undefined ? record : String(asked);

export function tellRotated({ deps, project }: Context, what: string): void {
  deps.events.record(project, 'Normal', 'Rotated', what);
}
