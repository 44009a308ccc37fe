/** Walks through the public API of every Supabase client, directly and as supabase-js, and of MCP, on one machine. */
import { test } from 'uvu';
import { walkAll } from './clients/all.suite.js';
import { type Issuer, startIssuer } from './clients/issuer.js';
import { projectToWalk, type WalkedProject } from './clients/walked-project.js';
import { type RunningPlatform, startPlatform } from './platform.js';

let platform: RunningPlatform;
let walked: WalkedProject;
let issuer: Issuer;

test.before(async () => {
  platform = await startPlatform(undefined, {
    SLIPWAY_SERVICES_SHARED: 'storage,functions',
    // The identity provider of this test listens on this machine.
    SLIPWAY_ALLOWED_NETWORKS: '127.0.0.0/8',
  });
  issuer = await startIssuer();
  walked = await projectToWalk(platform, 'free');
});

test.after(async () => {
  issuer?.close();
  await platform?.remove();
});

walkAll(
  test,
  () => walked,
  () => issuer,
);

test.run();
