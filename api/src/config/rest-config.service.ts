/**
 * Reads and changes the settings of a project's REST, which its owner may change with SQL too: the `pgrst.…` settings
 * of the database. They have no version there, so it derives from their content.
 */
import { Inject, Injectable } from '@nestjs/common';
import { databaseIdOf, databaseOf, SECRETS } from '@slipway/installation';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Principal } from '../callers/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { Problem, retryLater } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { ProjectsService } from '../projects/projects.service.js';
import { QueryService } from '../query/query.service.js';
import { LOG } from '../settings/injected.js';
import type { Config, ConfigChange } from './config.schema.js';
import { applied, changedTexts, type StoredConfig, shownConfig, versionOf } from './config-change.js';
import { REST, type Texts } from './config-kinds.js';

const PREFIX = 'pgrst.';
const MOST_ATTEMPTS = 10;
/**
 * SQLSTATEs of a concurrent change: the last statement failed, or Postgres found that another transaction has just
 * changed or created the catalog's row.
 */
const CONFLICTS = ['22012', 'XX000', '23505'];

const STORED = /* sql */ `
  from pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) setting
  where s.setrole = 0 and setting like '${PREFIX}%'
    and s.setdatabase = (select oid from pg_catalog.pg_database where datname = pg_catalog.current_database())`;
const NAME = `substr(split_part(setting, '=', 1), ${PREFIX.length + 1})`;
const VALUE = `substr(setting, strpos(setting, '=') + 1)`;
/** The owner may have set another search path for its role. */
const ONLY_CATALOG = 'set search_path = pg_catalog';
const SELECT = `select ${NAME} as name, ${VALUE} as value ${STORED}`;

@Injectable()
export class RestConfigService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly secrets: SecretsOfProjects,
    private readonly queries: QueryService,
    private readonly exclusive: ExclusiveWork,
    @Inject(LOG) private readonly log: Logger,
  ) {}

  async read(caller: Principal, id: number, signal: AbortSignal): Promise<Config> {
    const { project } = await this.projects.find(caller, id);
    return shownConfig(REST, await this.stored(project, signal));
  }

  async change(caller: Principal, id: number, change: ConfigChange, signal: AbortSignal): Promise<Config> {
    const { project } = await this.projects.find(caller, id);
    const stored = await this.exclusive.run('projectRestConfig', id, () => this.write(project, change, signal));
    const settings = Object.keys(change).filter((name) => name !== 'version');
    this.log.info({ ref: project.metadata.name, account: caller.user.id, settings }, 'REST settings changed');
    return shownConfig(REST, stored);
  }

  /** Decides again if SQL changes a setting between the read and the write. */
  private async write(project: SeenProject, change: ConfigChange, signal: AbortSignal): Promise<StoredConfig> {
    for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
      const current = await this.stored(project, signal);
      const changes = changedTexts(REST, change, current);
      if (Object.keys(changes).length === 0) return current;
      const content = applied(current.content, changes);
      const sql = statements(await this.database(project), changes, content);
      try {
        await this.queries.runOn(project, sql, { mode: 'owner', signal });
        return { content, version: versionOf(content) };
      } catch (error) {
        if (!isConflict(error)) throw error;
      }
    }
    throw retryLater('unavailable', 'Other clients change the same settings now. Try again.', 1);
  }

  private async stored(project: SeenProject, signal: AbortSignal): Promise<StoredConfig> {
    const { rows } = await this.queries.runOn(project, `${ONLY_CATALOG}; ${SELECT}`, { mode: 'owner', signal });
    const content = Object.fromEntries(rows.map(({ name, value }) => [String(name), String(value)]));
    return { content, version: versionOf(content) };
  }

  private async database(project: SeenProject): Promise<string> {
    const values = (await this.secrets.database(project)) ?? {};
    return values[SECRETS.database.database] ?? databaseOf(databaseIdOf(project.metadata.name, values));
  }
}

/**
 * Returns statements that Postgres runs in one transaction. The last one fails, and undoes them all, unless the stored
 * settings then are `content`: the row is locked by then, so that no other client can change it.
 */
export function statements(database: string, changes: Record<string, string | null>, content: Texts): string {
  const { escapeIdentifier: name, escapeLiteral: text } = pg;
  const alter = `alter database ${name(database)}`;
  return [
    ONLY_CATALOG,
    ...Object.entries(changes).map(([key, value]) =>
      value === null ? `${alter} reset ${name(PREFIX + key)}` : `${alter} set ${name(PREFIX + key)} = ${text(value)}`,
    ),
    `notify pgrst, 'reload config'`,
    `select 1 / (case when coalesce((select jsonb_object_agg(${NAME}, ${VALUE}) ${STORED}), '{}') =
      ${text(JSON.stringify(content))}::jsonb then 1 else 0 end)`,
  ].join(';\n');
}

const isConflict = (error: unknown) =>
  error instanceof Problem && error.kind === 'sql_error' && CONFLICTS.includes(String(error.extras.members?.sqlstate));
