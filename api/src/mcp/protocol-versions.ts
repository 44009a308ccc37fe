/**
 * The revisions of the protocol that are spoken, the newest first: those that begin with `initialize` are the SDK's own
 * list.
 */
import { SUPPORTED_PROTOCOL_VERSIONS } from '@modelcontextprotocol/server';

const STATELESS_REVISION = '2026-07-28';

export const PROTOCOL_VERSIONS: readonly string[] = [...new Set([STATELESS_REVISION, ...SUPPORTED_PROTOCOL_VERSIONS])];
