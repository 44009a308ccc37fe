/** Describes the API: OPTIONS of a table or function, and the root's OpenAPI document for the caller's role. */
import { type JsonBound, parseJsonInTurns } from '@slipway/program';
import { inTurns } from '../../bounds/turns.js';
import type { ServiceRequest } from '../service.js';
import type { Catalogue } from './catalogue/catalogue.js';
import { RestError } from './errors.js';
import { identityStatement } from './identity.js';
import { type Accessible, describe } from './openapi.js';
import type { Outline } from './request/api-request.js';
import { contentType, negotiate } from './request/media.js';
import type { Answer } from './response.js';
import type { TenantDatabase } from './tenant-database.js';

export function informed(catalogue: Catalogue, { target, schema }: Outline): Answer {
  const allow = allowed(catalogue, target, schema);
  return {
    status: 200,
    headers: { Allow: allow, 'Access-Control-Allow-Origin': '*', 'Content-Length': '0' },
    body: undefined,
  };
}

function allowed(catalogue: Catalogue, target: Outline['target'], schema: string): string {
  if (target.kind === 'root') return 'OPTIONS,GET,HEAD';
  if (target.kind === 'function') {
    const overloads = catalogue.overloads(schema, target.name);
    if (overloads.length === 0)
      throw new RestError(
        404,
        'PGRST202',
        `Could not find the function ${schema}.${target.name} without parameters in the schema cache`,
      );
    return overloads.every(({ volatility }) => volatility === 'v') ? 'OPTIONS,POST' : 'OPTIONS,GET,HEAD,POST';
  }
  const table = catalogue.table(schema, target.name);
  if (!table)
    throw new RestError(404, 'PGRST205', `Could not find the table '${schema}.${target.name}' in the schema cache`);
  const { insertable, updatable, deletable, primaryKey } = table;
  return [
    'OPTIONS,GET,HEAD',
    ...(insertable ? ['POST'] : []),
    ...(insertable && updatable && primaryKey.length > 0 ? ['PUT'] : []),
    ...(updatable ? ['PATCH'] : []),
    ...(deletable ? ['DELETE'] : []),
  ].join(',');
}

export async function described(
  catalogue: Catalogue,
  outline: Outline,
  request: ServiceRequest,
  database: TenantDatabase,
): Promise<Answer> {
  const { openapi } = catalogue.settings;
  if (openapi === 'disabled') throw new RestError(404, 'PGRST126', 'Root endpoint metadata is disabled');
  const requested = negotiate(outline.accept, { root: true });
  if (requested.media !== 'array' && requested.media !== 'openapi')
    throw new RestError(406, 'PGRST107', `None of these media types are available: ${outline.accept}`);
  const accessible =
    openapi === 'follow-privileges' ? await accessibleTo(catalogue, outline.schema, request, database) : undefined;
  const { serviceUrl, url } = request.tenant;
  const body = await inTurns(
    request.tenant.ref,
    describe(catalogue, outline.schema, `${serviceUrl ?? `${url}/rest/v1`}/`, accessible),
  );
  const headers: Record<string, string> = {
    'Content-Type': contentType({ media: 'openapi', stripNulls: false }),
    ...(outline.requestedProfile ? { 'Content-Profile': outline.schema } : {}),
  };
  return { status: 200, headers, body: outline.headOnly ? undefined : body };
}

const ACCESSIBLE = /* sql */ `
select json_build_object(
  'tables', (
    select coalesce(json_agg(json_build_object('name', c.relname,
      'select', pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
      'insert', pg_catalog.has_any_column_privilege(c.oid, 'INSERT'),
      'update', pg_catalog.has_any_column_privilege(c.oid, 'UPDATE'),
      'delete', pg_catalog.has_table_privilege(c.oid, 'DELETE'))), '[]')
    from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f')
  ),
  'functions', (
    select coalesce(json_agg(distinct p.proname), '[]') from pg_catalog.pg_proc p
    where p.pronamespace = n.oid and pg_catalog.has_function_privilege(p.oid, 'EXECUTE')
  )
)::text
from pg_catalog.pg_namespace n where n.nspname = $1 and pg_catalog.has_schema_privilege(n.oid, 'USAGE')`;

/**
 * Limits of the list of accessible objects: 10,000 tables and functions, as in a catalogue. All objects have the same
 * members.
 */
const MOST_ACCESSIBLE: JsonBound = { bytes: 4 * 1024 * 1024, depth: 4, values: 150_000 };

/** Returns the names that the caller's role may access. */
async function accessibleTo(
  catalogue: Catalogue,
  schema: string,
  { incoming, caller, path }: ServiceRequest,
  { pool }: TenantDatabase,
): Promise<Accessible> {
  const searchPath = catalogue.searchPath(schema);
  const identity = identityStatement(incoming, caller, {
    searchPath,
    path,
    readOnly: true,
    timeoutMs: undefined,
    timezone: undefined,
  });
  const [, result] = await pool.batch([identity, { text: ACCESSIBLE, values: [schema] }], { repeatable: true });
  const text = result?.rows[0]?.[0];
  if (!text) return { tables: [], functions: [] };
  return (await parseJsonInTurns(text, MOST_ACCESSIBLE)) as Accessible;
}
