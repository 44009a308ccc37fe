/** Converts the result of a reconcile to the EdgeFunction's status. Pure. */
import type { Condition, EdgeFunction, EdgeFunctionStatus } from '@slipway/crds';
import type { FunctionProblems } from '../../capabilities/index.js';
import { type NewCondition, withCondition } from '../../runtime/conditions.js';

export type Finding =
  | { state: 'deployed'; version: number }
  /** The code is stored, but no version is requested. */
  | { state: 'stored' }
  | { state: 'waiting'; message: string }
  /** The files of the function are damaged: no version is served until the next deploy. */
  | { state: 'lost'; message: string }
  /** The installation does not run functions for such a project. The former version is no longer served. */
  | { state: 'closed'; message: string }
  | { state: 'failed'; reason: string; message: string; problems?: FunctionProblems };

export interface Found {
  finding: Finding;
  newestVersion?: number;
  url: string;
}

export function statusOf({ metadata, status: before = { conditions: [] } }: EdgeFunction, found: Found, now: Date) {
  const { finding, newestVersion, url } = found;
  const generation = metadata.generation ?? 0;
  const version = finding.state === 'deployed' ? finding.version : versionBefore(before, finding);
  const conditions = conditionsOf(finding, version).reduce<Condition[]>(
    (list, condition) => withCondition(list, condition, generation, now),
    before.conditions ?? [],
  );
  const status: EdgeFunctionStatus = {
    phase: PHASES[finding.state],
    message: messageOf(finding).slice(0, 500),
    observedGeneration: generation,
    url,
    conditions,
    ...(version === undefined ? {} : { deployedVersion: version }),
    ...(newestVersion === undefined ? {} : { newestVersion }),
    ...(finding.state === 'failed' && finding.problems ? { problems: finding.problems.slice(0, 20) } : {}),
  };
  return status;
}

const PHASES = {
  deployed: 'deployed',
  stored: 'pending',
  waiting: 'pending',
  lost: 'pending',
  closed: 'error',
  failed: 'error',
} as const;

/** Returns the served version: a deploy that failed or waits does not change it. */
const versionBefore = (before: EdgeFunctionStatus, finding: Finding) =>
  finding.state === 'failed' || finding.state === 'waiting' ? before.deployedVersion : undefined;

function conditionsOf(finding: Finding, version: number | undefined): NewCondition[] {
  const message = messageOf(finding);
  const deployed: NewCondition =
    version === undefined
      ? { type: 'Deployed', status: 'False', reason: 'NotDeployed', message: 'callers get no version' }
      : { type: 'Deployed', status: 'True', reason: 'Deployed', message: `callers get version ${version}` };
  return [
    { type: 'Ready', status: finding.state === 'deployed' ? 'True' : 'False', reason: reasonOf(finding), message },
    deployed,
  ];
}

function reasonOf(finding: Finding): string {
  if (finding.state === 'failed') return finding.reason;
  return {
    deployed: 'Deployed',
    stored: 'NotDeployed',
    waiting: 'Deploying',
    lost: 'Unreadable',
    closed: 'NotAvailable',
  }[finding.state];
}

function messageOf(finding: Finding): string {
  if (finding.state === 'deployed') return `version ${finding.version} is deployed`;
  return finding.state === 'stored'
    ? 'not deployed yet: deploy it, or remove spec.deployedGeneration'
    : finding.message;
}

export function describeProblems(problems: FunctionProblems): string {
  const [first] = problems;
  const place = first?.line === undefined ? '' : `line ${first.line}, column ${first.column}: `;
  return `${place}${first?.message ?? 'the code can not be deployed'}`;
}
