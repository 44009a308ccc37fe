/**
 * Settings of one service on a project's own machine, from the environment: read once and checked. An error names the
 * invalid variable.
 */
import type { BlockList } from 'node:net';
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { readTrustedProxies, TRUSTED_PROXIES_SETTING } from '@slipway/installation';
import { type Environment, LISTEN_FORM, logLevelOf, type Reach, readReach, settingOf } from '@slipway/program';
import {
  type FunctionsSettings,
  pathLike,
  readFunctions,
  readGatewayUrl,
  readRateLimit,
  readStorage,
  type StorageSettings,
} from '../settings.js';

export interface UnitSettings {
  unit: Unit;
  /** Path of the project's document. */
  project: string;
  /** `host:port`, or the path of a Unix socket. */
  listen: string;
  /** Proxies whose X-Forwarded-For is trusted: those on this machine, and the platform's. */
  trustedProxies: BlockList;
  /** Requests in a second from one address; 0: no limit; undefined: the default. */
  rateLimit: number | undefined;
  /** Networks that auth and functions may connect to. */
  reach: Reach;
  logLevel: string;
}

/** The service, and what only this one needs. */
export type Unit =
  | { service: Exclude<ProjectService, 'storage' | 'functions'> }
  | { service: 'storage'; storage: StorageSettings }
  | { service: 'functions'; functions: FunctionsSettings };

const SERVICE = 'SLIPWAY_MACHINE_SERVICE';
const PROJECT = 'SLIPWAY_MACHINE_PROJECT';
const THIS_MACHINE = '127.0.0.0/8,::1';

export function readUnitSettings(environment: Environment): UnitSettings {
  const proxies = environment[TRUSTED_PROXIES_SETTING] ?? '';
  return {
    unit: readUnit(environment),
    project: settingOf(environment, PROJECT, pathLike('/etc/slipway/project.json')),
    listen: settingOf(environment, 'SLIPWAY_LISTEN', LISTEN_FORM),
    trustedProxies: readTrustedProxies(`${THIS_MACHINE},${proxies}`) as BlockList,
    rateLimit: readRateLimit(environment),
    reach: readReach(environment),
    logLevel: logLevelOf(environment),
  };
}

function readUnit(environment: Environment): Unit {
  const pattern = new RegExp(`^(${PROJECT_SERVICES.join('|')})$`);
  const service = settingOf(environment, SERVICE, { pattern, like: PROJECT_SERVICES.join(', ') }) as ProjectService;
  if (service === 'storage') return { service, storage: required(readStorage(environment), 'SLIPWAY_STORAGE_DIR') };
  if (service !== 'functions') return { service };
  const functions = required(readFunctions(environment), 'SLIPWAY_FUNCTIONS_DIR');
  return { service, functions: { ...functions, gatewayUrl: readGatewayUrl(environment) } };
}

function required<T>(value: T | undefined, name: string): T {
  if (value === undefined) throw new Error(`${name} is not set. This service needs it`);
  return value;
}
