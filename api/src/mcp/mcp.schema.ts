/** Schemas of GET /projects/{id}/mcp, and of the envelope of messages. */
import Type from 'typebox';
import { oneOf } from '../http/schema.js';
import { TOOL_NAMES } from './tools.js';

export const McpDetails = Type.Object(
  {
    url: Type.String({ description: 'The URL for POST requests with JSON-RPC.' }),
    transport: oneOf(['streamable-http'], { description: 'Stateless; each answer is one JSON body.' }),
    protocol_versions: Type.Array(Type.String(), { description: 'Revisions of the protocol, the newest first.' }),
    header: oneOf(['apikey'], { description: 'The header that carries the service_role key.' }),
    sql_read_only: Type.Boolean({
      description: 'True: run_sql only reads, as service_role, and no tool writes; PATCH `mcp_writes` allows writes.',
    }),
    tools: Type.Array(oneOf(TOOL_NAMES), { description: 'The names of the tools.' }),
    config: Type.Object(
      {
        mcpServers: Type.Record(
          Type.String(),
          Type.Object({
            type: oneOf(['http'], { description: 'The transport.' }),
            url: Type.String({ description: 'The address.' }),
            headers: Type.Record(Type.String(), Type.String(), { description: 'Headers with the key.' }),
          }),
        ),
      },
      {
        description:
          'For a desktop client. Without the scope `secrets:read` it has <service_role key> in place of the key.',
      },
    ),
  },
  { $id: 'McpDetails', additionalProperties: false },
);
export type McpDetails = Type.Static<typeof McpDetails>;

export const RpcMessage = Type.Object(
  {
    jsonrpc: oneOf(['2.0'], { description: 'The version of JSON-RPC.' }),
    id: Type.Optional(
      Type.Union([Type.Integer(), Type.String({ maxLength: 256 })], { description: 'Absent: a notification.' }),
    ),
    method: Type.String({
      maxLength: 256,
      description: 'initialize, tools/list, tools/call, ping, …',
      examples: ['tools/list'],
    }),
    params: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'Parameters of the method.' })),
  },
  { $id: 'McpMessage' },
);

export const RpcAnswer = Type.Object(
  {
    jsonrpc: oneOf(['2.0'], { description: 'The version of JSON-RPC.' }),
    id: Type.Optional(Type.Unknown({ description: 'The id of the request.' })),
    result: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'The result of the method.' })),
    error: Type.Optional(
      Type.Object(
        {
          code: Type.Integer({ description: 'The error code of JSON-RPC or MCP.' }),
          message: Type.String({ description: 'The problem.' }),
        },
        { description: 'The error, in place of a result.' },
      ),
    ),
  },
  { $id: 'McpAnswer' },
);
