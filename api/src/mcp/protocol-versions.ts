/**
 * Supported revisions of the MCP protocol, the newest first. The list of the revisions whose sessions begin with
 * `initialize` comes from the SDK.
 */
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';

const STATELESS_REVISION = '2026-07-28';

export const PROTOCOL_VERSIONS: readonly string[] = [...new Set([STATELESS_REVISION, ...SUPPORTED_PROTOCOL_VERSIONS])];
