/**
 * Compares the programs' requests in the Kubernetes API's audit log with their rights in the manifests. In: the log (a
 * line of JSON for each request) and `RIGHTS`. Out: requests that were rejected, or allowed by roles outside the
 * manifests, and rights that no request used.
 */
import { createReadStream } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Account } from '@slipway/cdk8s/names.js';
import { RIGHTS } from '@slipway/cdk8s/rights.js';
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';

export interface AuditedRequest {
  account: Account;
  verb: string;
  group: string;
  /** With its subresource, for example `projects/status`. */
  resource: string;
  namespace: string;
  name: string;
  isAllowed: boolean;
  /** The binding that allowed the request, in the API server's words. */
  reason: string;
}

interface AuditEvent {
  stageTimestamp: string;
  verb: string;
  user: { username: string };
  requestURI: string;
  objectRef?: { apiGroup?: string; resource: string; subresource?: string; namespace?: string; name?: string };
  responseStatus?: { code?: number };
  annotations?: Record<string, string>;
}

const ACCOUNTS = new Map(
  (Object.keys(RIGHTS) as Account[]).map((account) => [
    `system:serviceaccount:${SYSTEM_NAMESPACE}:${PROGRAMS[account]}`,
    account,
  ]),
);

/** Returns each kind of request once, since `since` (RFC 3339). */
export async function auditedRequests(log: string, since: string): Promise<AuditedRequest[]> {
  const found = new Map<string, AuditedRequest>();
  for await (const line of createInterface({ input: createReadStream(log), crlfDelay: Number.POSITIVE_INFINITY })) {
    if (!line.includes(`:${SYSTEM_NAMESPACE}:`)) continue;
    const event = JSON.parse(line) as AuditEvent;
    const account = ACCOUNTS.get(event.user.username);
    if (!account || Date.parse(event.stageTimestamp) < Date.parse(since)) continue;
    for (const request of requestsIn(event, account)) found.set(JSON.stringify(request), request);
  }
  return [...found.values()];
}

/** An apply that created its object needed the right to create it too. */
function requestsIn({ verb, objectRef, requestURI, responseStatus, annotations = {} }: AuditEvent, account: Account) {
  const { apiGroup = '', resource = requestURI, subresource, namespace = '', name = '' } = objectRef ?? {};
  const request = {
    account,
    verb,
    group: apiGroup,
    resource: subresource ? `${resource}/${subresource}` : resource,
    namespace,
    name,
    isAllowed: annotations['authorization.k8s.io/decision'] === 'allow',
    reason: annotations['authorization.k8s.io/reason'] ?? '',
  };
  return verb === 'patch' && responseStatus?.code === 201 ? [request, { ...request, verb: 'create' }] : [request];
}

/** A right of one account. */
export interface Grant {
  account: Account;
  /** Undefined: in all namespaces. */
  namespace: string | undefined;
  group: string;
  resource: string;
  verb: string;
  /** Undefined: for all names. */
  name: string | undefined;
}

export function grants(): Grant[] {
  return (Object.keys(RIGHTS) as Account[]).flatMap((account) => {
    const { cluster, namespaced } = RIGHTS[account];
    const places = [[undefined, cluster], ...Object.entries(namespaced)] as const;
    return places.flatMap(([namespace, rules]) =>
      rules.flatMap(({ apiGroups = [], resources = [], resourceNames, verbs }) =>
        apiGroups.flatMap((group) =>
          resources.flatMap((resource) =>
            verbs.flatMap((verb) =>
              (resourceNames ?? [undefined]).map((name) => ({ account, namespace, group, resource, verb, name })),
            ),
          ),
        ),
      ),
    );
  });
}

export const covers = (grant: Grant, request: AuditedRequest): boolean =>
  grant.account === request.account &&
  grant.verb === request.verb &&
  grant.group === request.group &&
  grant.resource === request.resource &&
  (grant.namespace === undefined || grant.namespace === request.namespace) &&
  (grant.name === undefined || grant.name === request.name);

export const inWords = ({
  account,
  verb,
  group,
  resource,
  namespace,
  name,
}: Omit<Grant, 'namespace'> & { namespace?: string | undefined }) =>
  [
    `${account}: ${verb} ${resource}${group ? `.${group}` : ''}`,
    ...(name ? [name] : []),
    ...(namespace ? [`in ${namespace}`] : []),
  ].join(' ');
