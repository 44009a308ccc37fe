/** Projects with real databases on a Postgres of the test, with their tokens. */

import { randomBytes } from 'node:crypto';
import { PROJECT_SERVICES } from '@slipway/crds';
import { authAdminRole, authenticatorRole, databaseOf, ownerRole, replicationSlotOf } from '@slipway/installation';
import { startTestPostgres, type TestPostgres } from '@slipway/postgres/testing.js';
import { buildSpare, ensureTemplate, newSpareId, prepareCluster, takeSpare } from '@slipway/project-database';
import { type JWTPayload, SignJWT } from 'jose';
import pg from 'pg';
import type { BackendTenant } from '../projects/tenant.js';
import type { Login } from '../sql/login.js';

export interface TestCluster {
  postgres: TestPostgres;
  project(ref: string, publicUrl?: string): Promise<TestProject>;
  close(): Promise<void>;
}

export type TestProject = BackendTenant;

export async function startTestCluster(settings: Record<string, string> = {}): Promise<TestCluster> {
  const postgres = await startTestPostgres(settings);
  const admin = new pg.Client(postgres.admin());
  // A test may stop Postgres; the next query rejects then.
  admin.on('error', () => undefined);
  await admin.connect();
  const connect = async (database: string) => {
    const client = new pg.Client(postgres.admin(database));
    await client.connect();
    return client;
  };
  await prepareCluster(admin);
  await ensureTemplate(admin, connect);

  async function project(ref: string, publicUrl = 'http://localhost:4000'): Promise<TestProject> {
    const passwords = { owner: newPassword(), authenticator: newPassword(), authAdmin: newPassword() };
    const id = newSpareId();
    await buildSpare(admin, connect, id);
    await takeSpare(admin, id, ref, passwords);
    const login = (user: string, password: string): Login => {
      const { host, port } = postgres.admin();
      return { host, port, database: databaseOf(ref), user, password };
    };
    const jwtSecret = randomBytes(32).toString('hex');
    return {
      ref,
      revision: '1',
      incarnation: '1',
      suspended: false,
      kind: 'backend',
      upstream: 'pooled',
      otherJwtSecrets: [],
      jwtSecret,
      anonKey: await signToken({ role: 'anon', ref, iss: 'slipway' }, jwtSecret),
      serviceRoleKey: await signToken({ role: 'service_role', ref, iss: 'slipway' }, jwtSecret),
      url: `${publicUrl}/p/${ref}`,
      type: 'shared',
      plan: 'free',
      services: new Set(PROJECT_SERVICES),
      authenticator: login(authenticatorRole(ref), passwords.authenticator),
      authAdmin: login(authAdminRole(ref), passwords.authAdmin),
      owner: login(ownerRole(ref), passwords.owner),
      replicationSlot: replicationSlotOf(ref),
    };
  }

  return {
    postgres,
    project,
    close: async () => {
      await admin.end().catch(() => undefined);
      await postgres.close();
    },
  };
}

const newPassword = () => randomBytes(16).toString('hex');

/** Valid for ten years unless `claims` have another expiry. */
export const signToken = (claims: JWTPayload, secret: string) =>
  new SignJWT({ iat: now(), exp: now() + 315_360_000, ...claims })
    .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
    .sign(new TextEncoder().encode(secret));

const now = () => Math.floor(Date.now() / 1000);
