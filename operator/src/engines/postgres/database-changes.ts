/**
 * Detects within seconds that a project's roles, or the privileges on its database, were changed: Postgres has no event
 * for such a change. In: a server's sessions. Out: the ref of each project whose digest differs from its digest at the
 * last look. Called by the server.
 */
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import type { ClusterSessions } from './cluster-sessions.js';

const LOOK_MS = 10_000;

/**
 * Query for a digest of each project's login roles, their memberships and the privileges on its database. No password
 * leaves the server.
 */
const PRINTS = `
  SELECT coalesce(known.ref, split_part(a.rolname, '.', 2)) AS ref,
         md5(string_agg(md5(a::text || coalesce(m.groups, '')), '' ORDER BY a.rolname)
             || coalesce(max(d.datacl::text || d.datallowconn || d.datconnlimit || d.datistemplate), '')) AS print
  FROM pg_authid a
  LEFT JOIN LATERAL (
    SELECT string_agg(roleid || ':' || inherit_option || set_option, ',' ORDER BY roleid) AS groups
    FROM pg_auth_members WHERE member = a.oid
  ) m ON true
  LEFT JOIN pg_database d ON d.datname = 'p-' || split_part(a.rolname, '.', 2)
  LEFT JOIN slipway.databases known ON known.database_id = split_part(a.rolname, '.', 2)
  WHERE a.rolname ~ '^(postgres|authenticator|auth_admin)\\.(?!spare_)[a-z0-9_-]+$'
  GROUP BY 1`;

export class DatabaseChanges {
  #known: Map<string, string> | undefined;
  #end: (() => void) | undefined;

  constructor(
    private readonly sessions: ClusterSessions,
    private readonly onChange: (ref: string) => void,
    private readonly log: Logger,
    private readonly everyMs = LOOK_MS,
  ) {}

  start(): void {
    this.#end ??= every(this.everyMs, 'looking for changed roles of projects', () => this.#look(), this.log);
  }

  close(): void {
    this.#end?.();
  }

  async #look(): Promise<void> {
    const { rows } = await this.sessions.query(PRINTS);
    const found = new Map(rows.map(({ ref, print }) => [ref as string, print as string]));
    const before = this.#known ?? found;
    this.#known = found;
    for (const ref of new Set([...before.keys(), ...found.keys()])) {
      if (before.get(ref) !== found.get(ref)) this.onChange(ref);
    }
  }
}
