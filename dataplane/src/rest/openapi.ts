/** Describes the exposed tables and functions as PostgREST's root does: an OpenAPI 2.0 document. Pure. */
import type { Catalogue, Column, FunctionRow, Table } from './catalogue/catalogue.js';

const JSON_TYPES: Record<string, object> = {
  bool: { type: 'boolean' },
  int2: { type: 'integer' },
  int4: { type: 'integer' },
  int8: { type: 'integer' },
  float4: { type: 'number' },
  float8: { type: 'number' },
  numeric: { type: 'number' },
  json: {},
  jsonb: {},
};

const typeOf = (base: string): object =>
  base.startsWith('_') ? { type: 'array', items: {} } : (JSON_TYPES[base] ?? { type: 'string' });

export function describe(catalogue: Catalogue, schema: string, url: string): string {
  const tables = [...catalogue.tables.values()].filter((table) => table.schema === schema);
  const functions = [...catalogue.functions.values()].flatMap(([first]) => (first?.schema === schema ? [first] : []));
  const { host, pathname, protocol } = new URL(url);
  return JSON.stringify({
    swagger: '2.0',
    info: { title: 'PostgREST API', description: 'Tables, views and functions of this project', version: '12' },
    host,
    basePath: pathname,
    schemes: [protocol.slice(0, -1)],
    consumes: ['application/json', 'application/vnd.pgrst.object+json'],
    produces: ['application/json', 'application/vnd.pgrst.object+json', 'text/csv'],
    paths: Object.fromEntries([
      ...tables.map((table) => [`/${table.name}`, tablePath(table)]),
      ...functions.map((routine) => [`/rpc/${routine.name}`, functionPath(routine)]),
    ]),
    definitions: Object.fromEntries(tables.map((table) => [table.name, definition(table)])),
  });
}

function definition({ columns, comment, primaryKey }: Table) {
  const list = [...columns.values()];
  return {
    type: 'object',
    ...(comment === null ? {} : { description: comment }),
    required: list
      .filter((column) => !column.nullable && column.default === null && !column.generated)
      .map(({ name }) => name),
    properties: Object.fromEntries(list.map((column) => [column.name, property(column, primaryKey)])),
  };
}

function property(column: Column, primaryKey: string[]) {
  const key = primaryKey.includes(column.name) ? 'Note:\nThis is a Primary Key.<pk/>' : undefined;
  const description = [column.comment, key].filter(Boolean).join('\n\n');
  return {
    ...typeOf(column.base),
    format: column.type,
    ...(column.default === null ? {} : { default: column.default }),
    ...(description === '' ? {} : { description }),
  };
}

function tablePath(table: Table) {
  const schema = { $ref: `#/definitions/${table.name}` };
  const filters = [...table.columns.values()].map(({ name, type }) => ({
    name,
    in: 'query',
    type: 'string',
    format: type,
    required: false,
  }));
  const body = { name: 'body', in: 'body', required: true, schema };
  const operation = (parameters: object[], status: string, content?: object) => ({
    tags: [table.name],
    parameters,
    responses: { [status]: { description: 'OK', ...(content ? { schema: content } : {}) } },
  });
  return {
    get: operation(filters, '200', { type: 'array', items: schema }),
    ...(table.insertable ? { post: operation([body], '201') } : {}),
    ...(table.updatable ? { patch: operation([...filters, body], '204') } : {}),
    ...(table.deletable ? { delete: operation(filters, '204') } : {}),
  };
}

function functionPath({ name, comment, parameters }: FunctionRow) {
  const named = parameters.filter((each) => each.name !== '');
  const schema = {
    type: 'object',
    required: named.filter(({ required }) => required).map((each) => each.name),
    properties: Object.fromEntries(named.map((each) => [each.name, { format: each.type }])),
  };
  return {
    post: {
      tags: [`(rpc) ${name}`],
      ...(comment === null ? {} : { summary: comment }),
      parameters: [{ name: 'args', in: 'body', required: true, schema }],
      responses: { 200: { description: 'OK' } },
    },
  };
}
