/** Every client of Supabase, directly and as supabase-js, through its whole public API on one machine; and MCP's. */
import { test } from 'uvu';
import { walkAuth } from './clients/auth.suite.js';
import { walkFunctions } from './clients/functions.suite.js';
import { type Issuer, startIssuer } from './clients/issuer.js';
import { walkMcp } from './clients/mcp.suite.js';
import { walkRealtime } from './clients/realtime.suite.js';
import { walkRest } from './clients/rest.suite.js';
import { walkStorage } from './clients/storage.suite.js';
import { walkSupabase } from './clients/supabase.suite.js';
import { projectToWalk, type WalkedProject } from './clients/walked-project.js';
import { type RunningPlatform, startPlatform } from './platform.js';

let platform: RunningPlatform;
let walked: WalkedProject;
let issuer: Issuer;

test.before(async () => {
  platform = await startPlatform(undefined, { SLIPWAY_SERVICES_SHARED: 'storage,functions' });
  issuer = await startIssuer();
  walked = await projectToWalk(platform, 'free');
});

test.after(async () => {
  issuer?.close();
  await platform?.remove();
});

const given = () => walked;
walkRest(test, given);
walkStorage(test, given);
walkFunctions(test, given);
walkRealtime(test, given);
walkSupabase(test, given);
walkMcp(test, given);
walkAuth(test, given, () => issuer);

test.run();
