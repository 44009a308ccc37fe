/**
 * The state of one project: its pool, its catalog and its compiled requests. The catalog is read again when Postgres
 * notifies of DDL, after lost connections, and before an unknown name is answered.
 */
import { createHash } from 'node:crypto';
import { AnswerTooLargeError, DatabaseError, Pool, type PoolLimits } from '../sql/pool.js';
import type { Tenant } from '../tenant.js';
import type { Catalogue } from './catalogue/catalogue.js';
import { type CatalogueLimits, CatalogueTooLarge, loadCatalogue } from './catalogue/load.js';
import type { SettingsSource } from './catalogue/settings.js';
import type { CompiledRequest } from './compile.js';
import { RETRY, RestError } from './errors.js';

/** `NOTIFY pgrst, 'reload schema'`, as tools for PostgREST send it. */
const CHANNEL = 'pgrst';
const RELOADS_AT_ONCE = 20;
const RELOADS_A_SECOND = 5;
/** A catalogue that is too large is not asked for again so soon. */
const REFUSED_MS = 2_000;
/** Postgres ran out of memory or time over it, or met a limit of its own. */
const COSTLY = new Set(['53200', '54000', '57014']);
const MAX_COMPILED = 500;
/** Callers choose it: no request that comes often is so long. */
const MAX_SHAPE_LENGTH = 16_384;

export interface PreparedRequest {
  compiled: CompiledRequest;
  /** Name of its statement; one for each role, as Postgres plans row-level security by role. */
  name: string;
}

export class TenantDatabase {
  readonly pool: Pool;
  private catalogue: Catalogue | undefined;
  private loading: Promise<Catalogue> | undefined;
  private stale = true;
  private refused: { error: RestError; until: number } | undefined;
  private tokens = RELOADS_AT_ONCE;
  private refilledAt = performance.now();
  /** Least recently used first. */
  private compiled = new Map<string, PreparedRequest>();
  private timezoneNames: Promise<ReadonlySet<string>> | undefined;
  usedAt = performance.now();

  constructor(
    public tenant: Tenant,
    private readonly settings: SettingsSource,
    limits: Partial<PoolLimits>,
    private readonly catalogueLimits?: CatalogueLimits,
  ) {
    this.pool = new Pool(tenant.authenticator, limits, {
      listen: [CHANNEL],
      onNotification: (_, payload) => {
        if (payload === '' || payload === 'reload schema' || payload === 'reload config') this.stale = true;
      },
      // Notifications may have been missed; a load that opened the connection reads after it listens.
      onReconnect: () => {
        if (!this.loading) this.stale = true;
      },
    });
  }

  /** The same database, with other keys, settings or passwords. */
  adopt(tenant: Tenant): void {
    this.tenant = tenant;
    this.pool.useLogin(tenant.authenticator);
  }

  /** Whether errors tell details and hint. */
  get isVerbose(): boolean {
    return this.catalogue?.settings.verboseErrors ?? true;
  }

  /** The catalogue as far as it is known to be current. */
  async current(): Promise<Catalogue> {
    if (this.loading) return this.loading;
    if (this.catalogue && !this.stale && this.pool.size > 0) return this.catalogue;
    if (this.catalogue && !this.takeToken()) return this.catalogue;
    return this.load();
  }

  /**
   * Sees to it that `current` is newer than `seen`. `joined`: by a read that others began, perhaps before the change
   * that is looked for; `refused`: it has been read too often of late.
   */
  async revalidate(seen: Catalogue): Promise<'read' | 'joined' | 'refused'> {
    if (this.loading) {
      await this.loading;
      return 'joined';
    }
    if (this.catalogue !== seen) return 'joined';
    if (!this.takeToken()) return 'refused';
    await this.load();
    return 'read';
  }

  private load(): Promise<Catalogue> {
    this.loading ??= this.read().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  private async read(): Promise<Catalogue> {
    if (this.refused && performance.now() < this.refused.until) throw this.refused.error;
    this.refused = undefined;
    // Told of a change while it reads, it is stale again.
    this.stale = false;
    try {
      this.catalogue = await loadCatalogue(this.pool, this.settings, this.catalogueLimits);
    } catch (error) {
      this.stale = true;
      const isTooLarge = error instanceof CatalogueTooLarge || error instanceof AnswerTooLargeError;
      if (!isTooLarge && !(error instanceof DatabaseError)) throw error;
      const message = isTooLarge ? error.message : 'Could not query the database for the schema cache. Retrying.';
      const refusal = new RestError(503, 'PGRST002', message, { headers: RETRY });
      const isCostly = isTooLarge || COSTLY.has(error.code);
      if (isCostly) this.refused = { error: refusal, until: performance.now() + REFUSED_MS };
      throw refusal;
    }
    this.compiled = new Map();
    return this.catalogue;
  }

  /** Asked for by few, and slow to read: once, when it is first asked. */
  timezones(): Promise<ReadonlySet<string>> {
    this.timezoneNames ??= this.pool
      .query<{ name: string }>('select name from pg_catalog.pg_timezone_names')
      .then((rows) => new Set(rows.map(({ name }) => name)));
    this.timezoneNames.catch(() => {
      this.timezoneNames = undefined;
    });
    return this.timezoneNames;
  }

  private takeToken(): boolean {
    const now = performance.now();
    this.tokens = Math.min(RELOADS_AT_ONCE, this.tokens + ((now - this.refilledAt) / 1000) * RELOADS_A_SECOND);
    this.refilledAt = now;
    if (this.tokens < 1) return false;
    this.tokens--;
    return true;
  }

  remembered(shape: string): PreparedRequest | undefined {
    const found = this.compiled.get(shape);
    if (found) {
      this.compiled.delete(shape);
      this.compiled.set(shape, found);
    }
    return found;
  }

  remember(shape: string, compiled: CompiledRequest): PreparedRequest {
    const prepared = { compiled, name: createHash('sha1').update(compiled.statement.text).digest('base64url') };
    if (!compiled.reusable || shape.length > MAX_SHAPE_LENGTH) return prepared;
    this.compiled.set(shape, prepared);
    const [oldest] = this.compiled.keys();
    if (this.compiled.size > MAX_COMPILED && oldest !== undefined) this.compiled.delete(oldest);
    return prepared;
  }
}
