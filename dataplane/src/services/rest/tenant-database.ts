/**
 * State of one project: its pool, catalogue and compiled requests. The catalogue is read again after a notification of
 * DDL, after lost connections, and before an unknown name is reported.
 */
import { createHash } from 'node:crypto';
import { type Rate, TokenBucket } from '@slipway/program';
import type { BackendTenant } from '../../projects/tenant.js';
import { AnswerTooLargeError, DatabaseError, Pool, type PoolLimits } from '../../sql/pool.js';
import type { Catalogue } from './catalogue/catalogue.js';
import { type CatalogueLimits, CatalogueTooLarge, loadCatalogue } from './catalogue/load.js';
import type { SettingsSource } from './catalogue/settings.js';
import type { CompiledRequest } from './compile.js';
import { RETRY, RestError } from './errors.js';

/** Channel of `NOTIFY pgrst, 'reload schema'`, which PostgREST's tools send. */
const CHANNEL = 'pgrst';
const RELOADS: Rate = { burst: 20, perSecond: 5 };
/** Milliseconds until the next read of a catalogue that was too large. */
const REFUSED_MS = 2_000;
/** SQLSTATEs with which Postgres ran out of memory or time for the catalogue, or reached a limit of its own. */
const COSTLY = new Set(['53200', '54000', '57014']);
const MAX_COMPILED = 500;
/** Maximum length of a cached shape. Callers choose the shape, and frequent requests have shorter ones. */
const MAX_SHAPE_LENGTH = 16_384;

export interface PreparedRequest {
  compiled: CompiledRequest;
  /** Name of the statement, different for each role, because Postgres plans row-level security by role. */
  name: string;
}

export interface TenantDatabaseOptions {
  settings: SettingsSource;
  limits: Partial<PoolLimits>;
  catalogueLimits?: CatalogueLimits;
  /** Called after a catalogue was read. */
  onCatalogue?: () => void;
}

export class TenantDatabase {
  readonly pool: Pool;
  private catalogue: Catalogue | undefined;
  private loading: Promise<Catalogue> | undefined;
  private stale = true;
  private refused: { error: RestError; until: number } | undefined;
  private readonly reloads = new TokenBucket(RELOADS);
  /** Compiled requests, least recently used first. */
  private compiled = new Map<string, PreparedRequest>();
  private timezoneNames: Promise<ReadonlySet<string>> | undefined;
  usedAt = performance.now();

  constructor(
    public tenant: BackendTenant,
    private readonly options: TenantDatabaseOptions,
  ) {
    this.pool = new Pool(tenant.authenticator, options.limits, {
      listen: [CHANNEL],
      onNotification: (_, payload) => {
        if (payload === '' || payload === 'reload schema' || payload === 'reload config') this.stale = true;
      },
      // Notifications may have been lost. A load that opened the connection itself reads after LISTEN.
      onReconnect: () => {
        if (!this.loading) this.stale = true;
      },
    });
  }

  /** Adopts changed keys, settings or passwords of the same database. */
  adopt(tenant: BackendTenant): void {
    this.tenant = tenant;
    this.pool.useLogin(tenant.authenticator);
  }

  /** True if errors include details and hint. */
  get isVerbose(): boolean {
    return this.catalogue?.settings.verboseErrors ?? true;
  }

  /** Bytes of the text that the cached catalogue was decoded from. */
  get catalogueBytes(): number {
    return this.catalogue?.bytes ?? 0;
  }

  /** Drops the catalogue; the next request reads it again. */
  dropCatalogue(): void {
    this.catalogue = undefined;
    this.compiled = new Map();
  }

  /** Returns the catalogue, which is current as far as known. */
  async current(): Promise<Catalogue> {
    if (this.loading) return this.loading;
    if (this.catalogue && !this.stale && this.pool.size > 0) return this.catalogue;
    if (this.catalogue && !this.reloads.tryTake()) return this.catalogue;
    return this.load();
  }

  /**
   * Replaces a catalogue that may be outdated. Returns `joined` if another request's read was used, which may have
   * begun before the change, and `refused` if it was read too often recently.
   */
  async revalidate(seen: Catalogue): Promise<'read' | 'joined' | 'refused'> {
    if (this.loading) {
      await this.loading;
      return 'joined';
    }
    if (this.catalogue !== seen) return 'joined';
    if (!this.reloads.tryTake()) return 'refused';
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
    const { settings, catalogueLimits } = this.options;
    if (this.refused && performance.now() < this.refused.until) throw this.refused.error;
    this.refused = undefined;
    // A change that arrives during the read marks it stale again.
    this.stale = false;
    try {
      this.catalogue = await loadCatalogue(this.tenant.ref, this.pool, settings, catalogueLimits);
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
    const { catalogue } = this;
    this.options.onCatalogue?.();
    return catalogue;
  }

  /** Read at the first use, because few requests need it, and reading is slow. */
  timezones(): Promise<ReadonlySet<string>> {
    this.timezoneNames ??= this.pool
      .query<{ name: string }>('select name from pg_catalog.pg_timezone_names')
      .then((rows) => new Set(rows.map(({ name }) => name)));
    this.timezoneNames.catch(() => {
      this.timezoneNames = undefined;
    });
    return this.timezoneNames;
  }

  remembered(shape: string): PreparedRequest | undefined {
    const cached = this.compiled.get(shape);
    if (cached) {
      this.compiled.delete(shape);
      this.compiled.set(shape, cached);
    }
    return cached;
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
