/**
 * Validates a posted message before the SDK sees it. Pure. In: any JSON value. Out: a JSON-RPC message for the SDK, or
 * an error response in our own words, because the SDK would quote its validator.
 */
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';
import Type from 'typebox';
import { Compile } from 'typebox/compile';
import { RpcMessage } from './mcp.schema.js';

/** Error codes of JSON-RPC 2.0 (section 5.1). */
const INVALID_REQUEST = -32600;
const INVALID_PARAMS = -32602;

const envelope = Compile(RpcMessage);
const toolCall = Compile(
  Type.Object({ name: Type.String(), arguments: Type.Optional(Type.Record(Type.String(), Type.Unknown())) }),
);

const WANTED =
  'The body must be one JSON-RPC 2.0 message: {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}, ' +
  'where id is a string or an integer, params is an object, and a notification has no id';

export function messageOf(posted: unknown): Type.Static<typeof RpcMessage> | Response {
  if (!envelope.Check(posted)) {
    const what = Array.isArray(posted) ? 'Batches are not supported. ' : '';
    return refusal(400, idOf(posted), INVALID_REQUEST, `Invalid Request: ${what}${WANTED}.`);
  }
  const { method, params } = posted;
  if (method === 'initialize' && params === undefined) return { ...posted, params: SILENT_CLIENT };
  if (method === 'tools/call' && !toolCall.Check(params)) {
    const text = 'Invalid params: tools/call needs params with the name of a tool, and arguments as an object.';
    return refusal(200, posted.id, INVALID_PARAMS, text);
  }
  return posted;
}

/** Parameters for a client that sends none: the newest revision whose sessions begin with `initialize`. */
const SILENT_CLIENT = {
  protocolVersion: SUPPORTED_PROTOCOL_VERSIONS[0],
  capabilities: {},
  clientInfo: { name: 'unknown', version: '0' },
};

const refusal = (status: number, id: unknown, code: number, message: string) =>
  Response.json({ jsonrpc: '2.0', id: id ?? null, error: { code, message } }, { status });

/** Returns the message's id; null if it has none. */
function idOf(posted: unknown): unknown {
  const id = (posted as { id?: unknown } | null | undefined)?.id;
  return typeof id === 'string' || Number.isInteger(id) ? id : null;
}
