/**
 * Decides which event of a git host builds a site, a preview or an app. In: the headers of a delivery, its payload, and
 * settings of the project. Out: what to build or to remove, the reason to do nothing, or a 400. Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { BRANCH, BRANCH_MAX_LENGTH } from '@slipway/crds';
import { invalid } from '../http/problem.js';
import type { Payload } from './delivery-body.js';

/** `revision` is missing if the newest commit of the production branch is built. */
export type Decision =
  | { kind: 'build'; revision?: string }
  | { kind: 'preview'; branch: string }
  | { kind: 'removal'; branch: string }
  | { kind: 'ignored'; reason: string };

export interface PushSettings {
  productionBranch: string;
  /** The reason why other branches have no previews; undefined: they have. */
  noPreviews: string | undefined;
}

/** Headers with the name of the event. Gitea and Forgejo send GitHub's header too. */
const EVENT_HEADERS = ['x-github-event', 'x-gitea-event', 'x-forgejo-event', 'x-gogs-event', 'x-gitlab-event'];
const PUSHES = ['push', 'Push Hook'];
const HEADS = 'refs/heads/';
const isBranch = new RegExp(BRANCH.pattern, 'u');

/** Pull requests are ignored: one of a fork builds nothing, and the push to a branch builds that branch. */
export function decide(headers: IncomingHttpHeaders, payload: Payload | undefined, settings: PushSettings): Decision {
  const event = EVENT_HEADERS.map((name) => headers[name]).find((value) => value !== undefined);
  if (event !== undefined && !PUSHES.includes(String(event))) {
    return { kind: 'ignored', reason: 'the event is no push' };
  }
  if (payload === undefined) return { kind: 'build' };
  // Another git host, or a script, whose events are unknown.
  if (event === undefined && payload.ref === undefined) return { kind: 'build' };
  return ofPush(payload, settings);
}

function ofPush({ ref, after, deleted }: Payload, settings: PushSettings): Decision {
  if (typeof ref !== 'string' || !ref.startsWith('refs/')) {
    throw invalid('ref', 'must be what was pushed, as refs/heads/main');
  }
  if (!ref.startsWith(HEADS)) return { kind: 'ignored', reason: 'a tag was pushed, and no branch' };
  const branch = ref.slice(HEADS.length);
  const isDeleted = deleted === true || (typeof after === 'string' && /^0+$/.test(after));
  if (branch !== settings.productionBranch) return ofOtherBranch(branch, isDeleted, settings);
  if (isDeleted) return { kind: 'ignored', reason: 'the branch was deleted' };
  if (after === undefined || after === null) return { kind: 'build' };
  if (typeof after === 'string' && COMMIT.test(after)) return { kind: 'build', revision: after };
  throw invalid('after', 'must be the commit that was pushed, 40 or 64 hexadecimal digits');
}

/** The branch's newest commit is built: a given commit, such as one of a fork, may be in no branch. */
function ofOtherBranch(branch: string, isDeleted: boolean, { productionBranch, noPreviews }: PushSettings): Decision {
  if (noPreviews !== undefined) {
    const branches = `another branch than ${productionBranch}, the production_branch`;
    return { kind: 'ignored', reason: `the push is to ${branches}, and ${noPreviews}` };
  }
  if (branch.length > BRANCH_MAX_LENGTH || !isBranch.test(branch)) {
    return { kind: 'ignored', reason: `a preview is of ${BRANCH.words}` };
  }
  return { kind: isDeleted ? 'removal' : 'preview', branch };
}

/** Matches a commit: a hash by SHA-1 or SHA-256 in hexadecimal digits. */
const COMMIT = /^(?:[\da-f]{40}|[\da-f]{64})$/;
