/** Functions of some projects behind a bare server instead of the gateway, for tests. */
import { lstatSync, mkdtempSync, readlinkSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { tenantWithoutDatabase } from '../../testing/tenant.js';
import type { DeployOutcome } from './deployer.js';
import { createFunctionsService, type FunctionsOptions, type FunctionsService } from './index.js';
import type { FunctionLimits } from './limits.js';
import type { LogLine } from './logs.js';

export interface TestFunctions {
  home: string;
  service: FunctionsService;
  /** Returns the URL of a project's functions, without a trailing slash. */
  url(ref: string): string;
  /** Deploys a source as a new version. */
  deploy(
    ref: string,
    name: string,
    code: string,
    options?: { verifyJwt?: boolean; version?: number },
  ): Promise<DeployOutcome>;
  setEnvironment(ref: string, environment: Record<string, string>): void;
  logs(ref: string, name: string): LogLine[];
  /** Stops without deleting deployed functions. */
  close(): Promise<void>;
}

export async function startTestFunctions(
  limits: Partial<FunctionLimits> = {},
  home?: string,
  options: Pick<
    FunctionsOptions,
    'projectUrl' | 'blockedAddresses' | 'allowedNetworks' | 'authorities' | 'owner' | 'ownAddresses'
  > = {},
): Promise<TestFunctions> {
  const folder = home ?? mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const environments = new Map<string, Record<string, string>>();
  let answer: (incoming: IncomingMessage, outgoing: ServerResponse) => void = () => undefined;
  const server = createServer((incoming, outgoing) => answer(incoming, outgoing));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const publicUrl = `http://localhost:${(server.address() as AddressInfo).port}`;
  const tenant = (ref: string) => testTenant(ref, options.projectUrl?.(ref) ?? `${publicUrl}/p/${ref}`);
  const service = await createFunctionsService({
    home: path.join(folder, 'functions'),
    publicUrl,
    ...options,
    tenant,
    environment: (ref) => environments.get(ref) ?? {},
    log: pino({ level: 'silent' }),
    limits: { lookMilliseconds: 50, ...limits },
  });
  service.onGatewayRequest((incoming, outgoing) => answer(incoming, outgoing));
  answer = (incoming, outgoing) => {
    const [, ref, target, query] = /^\/p\/([^/]+)\/functions\/v1([^?]*)\??(.*)$/.exec(incoming.url as string) ?? [];
    if (ref === undefined || target === undefined) {
      outgoing.end(`the platform: ${incoming.url}`);
      return;
    }
    const refusal = incoming.headers.authorization
      ? undefined
      : { status: 401, body: { message: 'No API key found in request' } };
    const caller = { role: 'anon', claims: '{}' } as const;
    service
      .handle({
        tenant: tenant(ref),
        caller,
        token: undefined,
        address: incoming.socket.remoteAddress ?? '',
        path: target,
        query: query ?? '',
        requestId: '1',
        incoming,
        outgoing,
        refusal,
      })
      .catch((error: unknown) => outgoing.destroy(error as Error));
  };
  let version = 0;
  return {
    home: folder,
    service,
    url: (ref) => `${publicUrl}/p/${ref}/functions/v1`,
    deploy: (ref, name, code, options = {}) =>
      service.deployer.deploy({ ref, name, code, verifyJwt: false, version: ++version + Date.now(), ...options }),
    setEnvironment: (ref, environment) => {
      environments.set(ref, environment);
      service.refresh(ref);
    },
    logs: (ref, name) => service.deployer.logs(ref, name, 0, 10_000) ?? [],
    close: async () => {
      await service.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      if (home === undefined) removeFunctions(folder);
    },
  };
}

/** Removes the home and the linked folder in which functions' accounts can read it. */
export function removeFunctions(home: string): void {
  const deployed = path.join(home, 'functions', 'deployed');
  if (lstatSync(deployed, { throwIfNoEntry: false })?.isSymbolicLink()) {
    const elsewhere = readlinkSync(deployed);
    for (const place of [elsewhere, `${elsewhere}.home`]) rmSync(place, { recursive: true, force: true });
  }
  rmSync(home, { recursive: true, force: true });
}

const testTenant = (ref: string, url: string) => tenantWithoutDatabase(ref, { url, services: new Set(['functions']) });
