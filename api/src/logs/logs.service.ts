/**
 * The logs of a project's services, for its owner. In: a service and a query. Out: lines from the data plane, or from
 * the machine of a dedicated project.
 */
import { Inject, Injectable } from '@nestjs/common';
import { hasOwnMachine, type MachineUnit, typeOf } from '@slipway/crds';
import { machineFunctionsSocket, SECRETS, type StoredLog } from '@slipway/installation';
import type { Principal } from '../callers/principal.js';
import { FunctionLogs } from '../functions/function-logs.js';
import { Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { Followers, type Following } from '../live/followers.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { ProjectsService } from '../projects/projects.service.js';
import { millisecondsOf, UnitLogsService } from '../projects/unit-logs.service.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { GatewayLogs } from './gateway-logs.js';
import { followLines, type LinePosition } from './line-followers.js';
import { type LogSelection, newestLinesOf } from './log-selection.js';
import type { ProjectLogLine, ProjectLogPath, ProjectLogQuery, ProjectLogs } from './logs.schema.js';
import { ClusterLogs } from './pods/cluster-logs.js';

const USUAL_LINES = 100;
const MOST_LINES = 1_000;
const POLL_MS = 1_000;
/** Each look is a command over SSH, or reads logs of pods. */
const POLL_SLOWLY_MS = 5_000;
const IN_PODS: readonly string[] = ['auth', 'postgres'];

/** The units of services whose names differ. */
const UNITS: Readonly<Record<StoredLog, MachineUnit>> = {
  auth: 'auth',
  rest: 'postgrest',
  realtime: 'realtime',
  storage: 'storage',
  postgres: 'postgres',
};

@Injectable()
export class LogsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly gateways: GatewayLogs,
    private readonly cluster: ClusterLogs,
    private readonly machines: UnitLogsService,
    private readonly functions: FunctionLogs,
    private readonly secrets: SecretsOfProjects,
    private readonly followers: Followers,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  /** Yields an event for each line, until the project is removed or belongs to another account. */
  async follow(
    caller: Principal,
    path: ProjectLogPath,
    query: ProjectLogQuery,
    { from, closed }: { from: LinePosition | undefined; closed: AbortSignal },
  ): Promise<Following> {
    const { project } = await this.projects.find(caller, path.id);
    // Problems of the request are a response, not an event.
    await this.read(caller, path, { ...query, limit: 1 });
    let isFirst = from === undefined;
    const read = async (since: number | undefined) => {
      const limit = isFirst ? (query.limit ?? USUAL_LINES) : MOST_LINES;
      isFirst = false;
      const time = since === undefined ? query.since : new Date(since).toISOString();
      const lines = await unlessGone(this.read(caller, path, { ...query, limit, ...(time && { since: time }) }));
      return lines && settled(lines.items, settledMs);
    };
    const isMachine = hasOwnMachine(typeOf(project));
    const isSlow = isMachine || (this.settings.site !== undefined && IN_PODS.includes(path.service));
    const pollMs = isSlow ? POLL_SLOWLY_MS : POLL_MS;
    const settledMs = isMachine || path.service === 'functions' ? 0 : this.gateways.settledMs;
    const follower = { ref: project.metadata.name, accountId: caller.user.id };
    return this.followers.follow(follower, closed, (signal) => followLines({ read, from, pollMs }, signal));
  }

  async read(caller: Principal, { id, service }: ProjectLogPath, query: ProjectLogQuery): Promise<ProjectLogs> {
    const { project } = await this.projects.find(caller, id);
    refuseWithoutDatabase(project, 'logs');
    if (service === 'functions') return { items: await this.ofFunctions(project, query) };
    if (hasOwnMachine(typeOf(project))) {
      return this.machines.read(caller, { id, service: UNITS[service] }, query);
    }
    const { level = 'info', since, limit = USUAL_LINES } = query;
    const from = since === undefined ? 0 : millisecondsOf(since);
    return { items: await this.ofShared(project, service, { level, since: from, limit }) };
  }

  /** The lines of the gateways and, on a cluster, of the pods of the project's auth and database. */
  private async ofShared(project: SeenProject, service: StoredLog, query: LogSelection): Promise<ProjectLogLine[]> {
    const isOnCluster = this.settings.site !== undefined;
    if (isOnCluster && service === 'postgres') return this.cluster.ofPostgres(project, query);
    const lines = await Promise.all([
      this.gateways.read(project.metadata.name, service, query),
      ...(isOnCluster && service === 'auth' ? [this.cluster.ofAuth(project, query)] : []),
    ]);
    return newestLinesOf(lines.flat(), query.limit);
  }

  /** The lines of all functions. The log of a function has lines of the platform as a level of their own. */
  private async ofFunctions(project: SeenProject, query: ProjectLogQuery): Promise<ProjectLogLine[]> {
    const { level = 'info', since, limit = USUAL_LINES } = query;
    const from = since === undefined ? 0 : millisecondsOf(since);
    const machine = hasOwnMachine(typeOf(project)) ? await this.secrets.database(project) : undefined;
    const host = machine?.[SECRETS.database.host];
    if (machine && !host) return [];
    const lines = await this.functions.readAll(project.metadata.name, MOST_LINES, host && machineFunctionsSocket(host));
    return lines
      .map(({ time, level: of, message, function: name, version }) => {
        const shown = of === 'system' ? 'info' : of;
        return { time, level: shown, message, function: name, version };
      })
      .filter((line) => Date.parse(line.time) >= from && (level === 'info' || line.level === 'error'))
      .slice(-limit);
  }
}

/** Leaves out lines beside which an earlier one may still appear. A later read returns them. */
function settled(lines: readonly ProjectLogLine[], settledMs: number): readonly ProjectLogLine[] {
  const until = Date.now() - settledMs;
  return settledMs === 0 ? lines : lines.filter(({ time }) => Date.parse(time) <= until);
}

/** Undefined: the project was removed, or belongs to another account. */
const unlessGone = <T>(work: Promise<T>): Promise<T | undefined> =>
  work.catch((error: unknown) => {
    if (error instanceof Problem && error.kind === 'not_found') return undefined;
    throw error;
  });
