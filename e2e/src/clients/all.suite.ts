/** Walks through the public API of every Supabase client, directly and as supabase-js, and of MCP. */
import type { Test } from 'uvu';
import { walkAuth } from './auth.suite.js';
import { walkFunctions } from './functions.suite.js';
import type { Issuer } from './issuer.js';
import { walkMcp } from './mcp.suite.js';
import { walkRealtime } from './realtime.suite.js';
import { walkRest } from './rest.suite.js';
import { walkStorage } from './storage.suite.js';
import { walkSupabase } from './supabase.suite.js';
import type { WalkedProject } from './walked-project.js';

export function walkAll(test: Test, given: () => WalkedProject, issuer: () => Issuer | undefined): void {
  walkRest(test, given);
  walkStorage(test, given);
  walkFunctions(test, given);
  walkRealtime(test, given);
  walkSupabase(test, given);
  walkMcp(test, given);
  walkAuth(test, given, issuer);
}
