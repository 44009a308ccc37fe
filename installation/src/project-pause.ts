/**
 * The report of paused projects from the data plane to the operator: in the response of a paused project, and at
 * PAUSES_PATH, which is public and therefore has hashes in place of refs.
 */
import { createHash } from 'node:crypto';

/** The error in Proxy-Status (RFC 9209), and the code in the body, of a response for a paused project. */
export const PROJECT_PAUSED = 'project_paused';

/** Path whose response has the field `paused`: the reason of each pause by `hashedRef`. */
export const PAUSES_PATH = '/readyz';

export const hashedRef = (ref: string): string => createHash('sha256').update(ref).digest('base64url');
