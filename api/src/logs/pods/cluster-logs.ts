/**
 * The logs of a project's own pods of auth, and of its database's server on a cluster. In: a project and a query. Out:
 * the newest lines for its owner, oldest first.
 */
import { Injectable } from '@nestjs/common';
import { DATA_NAMESPACE, LABEL_CLUSTER, LABEL_PART, namespaceOf, PART_AUTH, SECRETS } from '@slipway/installation';
import { Problem } from '../../http/problem.js';
import type { SeenProject } from '../../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../../projects/project-secrets.js';
import { type LogSelection, selectedLines } from '../log-selection.js';
import type { ProjectLogLine } from '../logs.schema.js';
import { authLineOf } from './auth-lines.js';
import { PodLogs, type SelectedPods } from './pod-logs.js';
import { postgresLinesOf } from './postgres-lines.js';

/** Lines of auth for owners are among lines for administrators. Those of a server are also of other databases. */
const AUTH_LINES = 2_000;
const SERVER_LINES = 20_000;

@Injectable()
export class ClusterLogs {
  constructor(
    private readonly pods: PodLogs,
    private readonly secrets: SecretsOfProjects,
  ) {}

  /** A project on a plan with the placement `pooled` has no pods of its own. */
  async ofAuth({ metadata: { name: ref }, status }: SeenProject, query: LogSelection): Promise<ProjectLogLine[]> {
    if (status?.placement === 'pooled') return [];
    const pods = {
      namespace: namespaceOf(ref),
      labels: { [LABEL_PART]: PART_AUTH },
      container: PART_AUTH,
      lines: AUTH_LINES,
    };
    const lines = await this.pods.read(ref, pods, query.since);
    return selectedLines(
      lines.flatMap((line) => authLineOf(line) ?? []),
      query,
    );
  }

  /** A project whose database does not exist yet has no lines. */
  async ofPostgres(project: SeenProject, query: LogSelection): Promise<ProjectLogLine[]> {
    const ref = project.metadata.name;
    const database = await this.secrets.database(project);
    const host = database?.[SECRETS.database.host];
    if (!database || !host) return [];
    const pods = serverPodsOf(host, ref);
    if (!pods)
      throw new Problem('unavailable', 'The database is on a server whose log this installation can not read.');
    const lines = await this.pods.read(ref, pods, query.since);
    // A project of an earlier release has its ref as its id.
    return postgresLinesOf(lines, database[SECRETS.database.id] ?? ref, query);
  }
}

/** Returns the pods of the server that a region shares, or of the project's own. `host`: `<name>.<namespace>.svc`. */
function serverPodsOf(host: string, ref: string): SelectedPods | undefined {
  const [, name, namespace] = /^([a-z0-9-]+)\.([a-z0-9-]+)\.svc$/.exec(host) ?? [];
  if (!name || !namespace || ![DATA_NAMESPACE, namespaceOf(ref)].includes(namespace)) return undefined;
  return { namespace, labels: { [LABEL_CLUSTER]: name }, container: 'postgres', lines: SERVER_LINES };
}
