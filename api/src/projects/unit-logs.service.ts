/**
 * The logs of the services on a dedicated project's machine. In: a service and a query. Out: lines without the
 * project's secrets. The operator alone reaches machines: it reads the journal, and serves it at a socket.
 */
import { Injectable } from '@nestjs/common';
import type { MachineUnit, Project } from '@slipway/crds';
import {
  LAST_TIME,
  machineLogsSocket,
  SECRETS,
  UNIT_LOG_BYTES,
  UNIT_LOG_LINES,
  type UnitLogLine,
  type UnitLogQuery,
  unitLogPath,
} from '@slipway/installation';
import { type JsonBound, ONE_TURN, parseJson } from '@slipway/program';
import type { Principal } from '../callers/principal.js';
import { plainGet } from '../http/plain-get.js';
import { invalid, Problem, retryLater } from '../http/problem.js';
import type { ServiceLogQuery, ServiceLogs } from './machine.schema.js';
import { SecretsOfProjects } from './project-secrets.js';
import { refuseExceptDedicated } from './project-types.js';
import { ProjectsService, refuseDeleting } from './projects.service.js';
import { refuseSuspended } from './suspension.js';

/** The operator gives up after 10 s. */
const DEADLINE_MS = 12_000;
const RETRY_SECONDS = 10;
const MOST_OF_LOG: JsonBound = { ...ONE_TURN, bytes: UNIT_LOG_BYTES };
/** Limits of a response. */
const MOST_BYTES = 1024 * 1024;
const LINE_BYTES = 4 * 1024;
/** Shorter values of secrets occur in any text. */
const SHORTEST_SECRET = 8;
const REDACTED = '[redacted]';

@Injectable()
export class UnitLogsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
  ) {}

  async read(
    caller: Principal,
    { id, service }: { id: number; service: MachineUnit },
    { since, limit = UNIT_LOG_LINES.usual, level }: ServiceLogQuery,
  ): Promise<ServiceLogs> {
    const { project } = await this.projects.find(caller, id);
    refuseWithoutServices(project);
    const query = { limit, level, since: since === undefined ? undefined : millisecondsOf(since) };
    const { keys = {}, database = {}, env = {} } = await this.secrets.read(project);
    const host = database[SECRETS.database.host];
    if (!host) throw notReady();
    const lines = await linesFrom(machineLogsSocket(host), service, query);
    return { items: withinBytes(lines, secretPattern({ ...keys, ...passwordsOf(database), ...env })) };
  }
}

function refuseWithoutServices(project: Project): void {
  refuseExceptDedicated(project);
  refuseDeleting(project);
  refuseSuspended(project);
  if (!project.status?.server?.units) throw notReady();
}

const notReady = () =>
  new Problem('project_not_ready', 'The machine has no services yet. GET /projects/{id}/status shows the progress.');

/** Returns the milliseconds since 1970. A leap second, or a year that no machine knows, is an error of the request. */
export function millisecondsOf(since: string): number {
  const time = Date.parse(since);
  if (time >= 0 && time <= LAST_TIME) return time;
  throw invalid('since', 'must be a time in RFC 3339, such as 2026-01-05T10:00:00Z');
}

async function linesFrom(socketPath: string, service: MachineUnit, query: UnitLogQuery): Promise<UnitLogLine[]> {
  const options = { socketPath, path: unitLogPath(service, query) };
  const { status, text } = await plainGet(options, { deadlineMs: DEADLINE_MS, bytes: MOST_OF_LOG.bytes }).catch(
    (cause: unknown) => ({ status: 0, text: (cause as Error).message }),
  );
  if (status === 200) return parseJson(text, MOST_OF_LOG) as UnitLogLine[];
  const detail = 'The machine does not respond over SSH, so that its logs can not be read now. Try again.';
  throw retryLater('unavailable', detail, RETRY_SECONDS);
}

/** The other members of the Secret are an address and names. */
const passwordsOf = (database: Record<string, string>) =>
  Object.fromEntries(Object.entries(database).filter(([name]) => name.endsWith('-password') || name === 'url'));

/** Matches each value as it is and as it is in an address. Longer ones first: one may begin with another. */
function secretPattern(secrets: Record<string, string>): RegExp | undefined {
  const values = Object.values(secrets).filter((value) => value.length >= SHORTEST_SECRET);
  const forms = values.flatMap((value) => [value, encodeURIComponent(value.toWellFormed())]);
  if (forms.length === 0) return undefined;
  const sorted = [...new Set(forms)].sort((a, b) => b.length - a.length);
  return new RegExp(sorted.map((form) => form.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')).join('|'), 'g');
}

/** Returns the newest lines that fit into a response, redacted before they are cut. */
function withinBytes(lines: readonly UnitLogLine[], secrets: RegExp | undefined): UnitLogLine[] {
  const items: UnitLogLine[] = [];
  let bytes = 0;
  for (const { time, level, message } of lines.toReversed()) {
    const item = { time, level, message: cut(secrets ? message.replaceAll(secrets, REDACTED) : message) };
    bytes += Buffer.byteLength(JSON.stringify(item)) + 1;
    if (bytes > MOST_BYTES) break;
    items.push(item);
  }
  return items.reverse();
}

function cut(message: string): string {
  const bytes = Buffer.from(message);
  if (bytes.length <= LINE_BYTES) return message;
  // A character that is cut in two becomes a replacement character.
  return `${bytes.toString('utf8', 0, LINE_BYTES - 6).replace(/\ufffd$/, '')}…`;
}
