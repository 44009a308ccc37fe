/**
 * Harness for tests of auth: projects with their own settings behind a real gateway, and a mail server that stores
 * mails.
 */
import { randomBytes } from 'node:crypto';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Rate } from '@slipway/program';
import { type Outbound, outboundTo } from '@slipway/program/outbound.js';
import { createClient, type SupabaseClient } from '@supabase/supabase-js';
import pg from 'pg';
import { pino } from 'pino';
import * as assert from 'uvu/assert';
import { createGateway } from '../../../gateway/server.js';
import type { OwnerLog, Written } from '../../../logs/owner-log.js';
import { startTestCluster, type TestProject } from '../../../testing/project.js';
import { createManagement } from '../../../upstreams/management.js';
import { createAuthService } from '../index.js';
import { type Mailbox, startMailbox } from './mailbox.js';

export const password = 'correct horse';

/** High limits, because all tests come from one address. Tests of limits set their own. */
export const PLENTY = {
  GOTRUE_RATE_LIMIT_VERIFY: '100000',
  GOTRUE_RATE_LIMIT_OTP: '100000',
  GOTRUE_RATE_LIMIT_EMAIL_SENT: '100000',
  GOTRUE_RATE_LIMIT_SMS_SENT: '100000',
  GOTRUE_RATE_LIMIT_ANONYMOUS_USERS: '100000',
  GOTRUE_SMTP_MAX_FREQUENCY: '0s',
  GOTRUE_SMS_MAX_FREQUENCY: '0s',
};

export type Settings = Readonly<Record<string, string>>;

export interface AuthProject {
  tenant: TestProject;
  url: string;
  owner: pg.Client;
  client(key?: string, options?: object): SupabaseClient;
  /** Client of the PKCE flow, which stores its verifier. */
  pkceClient(): SupabaseClient;
  admin(): SupabaseClient['auth']['admin'];
  /** Sends a request to auth, with the anon key by default. */
  ask(method: string, path: string, options?: Ask): Promise<Answer>;
  /** Replaces the project's settings. */
  configure(settings: Settings): void;
  newEmail(): string;
  signedUp(email?: string): Promise<{ supabase: SupabaseClient; email: string; userId: string }>;
}

export interface Ask {
  token?: string | undefined;
  body?: object | string;
  headers?: Record<string, string>;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Record<string, unknown>;
}

export interface Harness {
  mailbox: Mailbox;
  logged: string[];
  /** Lines of the log for the owners of projects. */
  ownerLines: Written[];
  project(ref: string, settings?: Settings): Promise<AuthProject>;
  close(): Promise<void>;
}

export async function startHarness({
  attempts,
  outbound = outboundTo(() => true),
}: {
  attempts?: Rate;
  outbound?: Outbound;
} = {}): Promise<Harness> {
  const cluster = await startTestCluster();
  const mailbox = await startMailbox();
  const logged: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line) => void logged.push(line) });
  const tenants = new Map<string, TestProject>();
  const ownerLines: Written[] = [];
  const ownerLog: OwnerLog = { write: (_ref, _service, line) => void ownerLines.push(line) };
  const auth = createAuthService({ log, ownerLog, outbound, ...(attempts ? { attempts } : {}) });
  const gateway: Server = createGateway({
    publicUrl: 'http://localhost',
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { auth, rest: auth },
    management: createManagement('/nonexistent', 'http://localhost'),
    log,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  const origin = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
  const owners: pg.Client[] = [];

  return {
    mailbox,
    logged,
    ownerLines,
    project: async (ref, settings = {}) => {
      const tenant = await cluster.project(ref, origin);
      const owner = new pg.Client(tenant.owner);
      await owner.connect();
      owners.push(owner);
      const configure = (values: Settings) => {
        const revision = randomBytes(8).toString('hex');
        tenants.set(ref, { ...tenant, revision, authConfig: { ...PLENTY, ...values } });
      };
      configure(settings);
      return authProject(tenant, owner, configure);
    },
    close: async () => {
      for (const owner of owners) await owner.end();
      gateway.closeAllConnections();
      gateway.close();
      await auth.close();
      await mailbox.close();
      await cluster.close();
    },
  };
}

function storageInMemory() {
  const items = new Map<string, string>();
  return {
    getItem: (key: string) => items.get(key) ?? null,
    setItem: (key: string, value: string) => void items.set(key, value),
    removeItem: (key: string) => void items.delete(key),
  };
}

const CLIENT = { persistSession: false, autoRefreshToken: false, detectSessionInUrl: false };
let count = 0;

function authProject(tenant: TestProject, owner: pg.Client, configure: (settings: Settings) => void): AuthProject {
  const { url } = tenant;
  const client = (key = tenant.anonKey, options: object = {}) =>
    createClient(url, key, { auth: { ...CLIENT, ...options } });
  const newEmail = () => `user${++count}@example.com`;
  return {
    tenant,
    url,
    owner,
    client,
    configure,
    newEmail,
    pkceClient: () => client(undefined, { flowType: 'pkce', persistSession: true, storage: storageInMemory() }),
    admin: () => client(tenant.serviceRoleKey).auth.admin,
    ask: (method, path, { token, body, headers = {} } = {}) =>
      ask(`${url}/auth/v1${path}`, method, body, {
        apikey: tenant.anonKey,
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      }),
    signedUp: async (email = newEmail()) => {
      const supabase = client();
      const { data, error } = await supabase.auth.signUp({ email, password });
      assert.is(error, null);
      return { supabase, email, userId: data.user?.id as string };
    },
  };
}

async function ask(
  url: string,
  method: string,
  body: object | string | undefined,
  headers: Record<string, string>,
): Promise<Answer> {
  const answer = await fetch(url, {
    method,
    headers,
    redirect: 'manual',
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  return { status: answer.status, headers: answer.headers, body: text.startsWith('{') ? JSON.parse(text) : {} };
}

export async function sessionOf(supabase: SupabaseClient) {
  const { data } = await supabase.auth.getSession();
  assert.ok(data.session);
  return data.session;
}

/** Returns the parameters of a redirect, from its fragment and its query. */
export function landing(location: string | null) {
  assert.ok(location);
  const url = new URL(location as string);
  return { url, fragment: new URLSearchParams(url.hash.slice(1)), query: url.searchParams };
}
