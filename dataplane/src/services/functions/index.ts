/**
 * Service of `/functions/v1`. In: calls; deployments, from the operator over the control socket; each project's
 * environment, from the registry. Out: responses of functions, each run in its own Deno process. Parts: `function.ts`
 * (version and isolate), `isolate.ts` (the process), `deno.ts` (its permissions), `watchdog.ts` (its usage), `store.ts`
 * (the disk).
 */
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { refusedRanges } from '@slipway/program';
import { accountOf, filteredSockets, installedDeno, Launcher, removeFolder } from '@slipway/sandbox';
import type { Logger } from 'pino';
import { refuse, STARTING } from '../../http/refusals.js';
import type { BackendTenant } from '../../projects/tenant.js';
import type { Service } from '../service.js';
import { answering } from './calls.js';
import { type Deno, reachableFolder } from './deno.js';
import { Deployer, type DeployerOptions } from './deployer.js';
import { EdgeFunction, keyOf } from './function.js';
import { Unavailable } from './isolate.js';
import { isolation } from './isolation.js';
import { type FunctionLimits, LIMITS } from './limits.js';
import { type AddressReader, OwnAddresses, readOwnAddresses } from './own-addresses.js';
import { Shares } from './shares.js';
import { FunctionStore } from './store.js';
import { UnreadableFunctions } from './unreadable.js';
import { Watchdog } from './watchdog.js';

export interface FunctionsOptions {
  /** Folder of sources and their imports. */
  home: string;
  publicUrl: string;
  /** If each project has its own host name, functions reach that through the gateway, not the public URL. */
  projectUrl?: ((ref: string) => string) | undefined;
  /** Networks (CIDRs) outside of the internet that functions may reach. */
  allowedNetworks?: readonly string[] | undefined;
  /** File (PEM) of all certificate authorities that functions trust. Default: the system's and Deno's own. */
  authorities?: string | undefined;
  /** IPv4 ranges and addresses that functions must not reach, besides private ranges. */
  blockedAddresses?: readonly string[];
  tenant(ref: string): BackendTenant | undefined;
  /** Addresses of this machine. Default: those of its network interfaces. */
  ownAddresses?: AddressReader;
  /** Account that owns the project, if known. Its projects share the limits of an account. */
  owner?(ref: string): string | undefined;
  /** Returns the present variables of the project's owner, and the database's URL. */
  environment(ref: string): Record<string, string>;
  log: Logger;
  limits?: Partial<FunctionLimits>;
}

type GatewayListener = (...request: [...Parameters<RequestListener>, ref: string]) => void;

export interface FunctionsService extends Service {
  readonly deployer: Deployer;
  /** Id of the functions' disk. Another disk has none of the functions. */
  readonly disk: string;
  /** Forwards requests of isolates to the public URL, with the project's ref, to the gateway. */
  onGatewayRequest(listener: GatewayListener): void;
  /** Called when the environment of a project has changed. */
  refresh(ref: string): void;
}

interface Folders {
  root: string;
  sockets: string;
  bootstrap: string;
  disk: string;
}

export async function createFunctionsService(options: FunctionsOptions): Promise<FunctionsService> {
  const limits = { ...LIMITS, ...options.limits };
  const { kind, filtersSockets, description } = isolation();
  const program = installedDeno();
  const launcher = new Launcher(options.log, filtersSockets ? filteredSockets(program) : []);
  const folders = prepareFolders(options.home);
  const deno = { program, launcher, authorities: copiedAuthorities(options.authorities, folders) };
  const functions = new Map<string, EdgeFunction>();
  const shares = new Shares(limits, (ref) => options.owner?.(ref));
  const refresh = (isMeant: (ref: string) => boolean) => {
    for (const each of functions.values()) if (isMeant(each.ref)) each.refresh();
  };
  const refreshAll = () => refresh(() => true);
  const refused = refusedRanges(options.allowedNetworks ?? []);
  const readOwn = options.ownAddresses ?? readOwnAddresses;
  const own = new OwnAddresses(readOwn, refused, refreshAll, limits.addressMilliseconds);
  const deniedNetworks = [...refused, ...(options.blockedAddresses ?? [])];
  const watchdog = new Watchdog(limits, shares);
  const store = new FunctionStore(folders.root);
  let onGateway: GatewayListener = (_, outgoing) => refuse(outgoing, STARTING);
  const gateway: GatewayListener = (incoming, outgoing, ref) => onGateway(incoming, outgoing, ref);
  const parts = { gateway, options, limits, deno, folders, functions, watchdog, store, shares, own, deniedNetworks };
  const surroundings = surroundingsOf(parts);
  const make = (ref: string, name: string, deployment: EdgeFunction['deployment']) =>
    new EdgeFunction(ref, name, deployment, surroundings(ref, name));
  const unreadable = await restore(parts, make);
  const isWalled = filtersSockets && (kind === 'account-per-project' || kind === 'sandbox');
  options.log[isWalled ? 'info' : 'warn']({ kind, description }, 'functions isolation chosen');
  if (functions.size > 0) deno.launcher.warmUp();
  const knows = (ref: string) => options.tenant(ref) !== undefined;
  const { log } = options;
  const deployer = new Deployer({ store, functions, unreadable, shares, watchdog, make, knows, deno, limits, log });
  const handle = answering({ functions, unreadable, limits });
  return {
    deployer,
    disk: folders.disk,
    handle,
    onGatewayRequest: (listener) => {
      onGateway = listener;
    },
    refresh: (ref) => refresh((of) => of === ref),
    change: ({ ref }) => refresh((of) => of === ref),
    forget: async (ref) => refresh((of) => of === ref),
    close: async () => {
      own.close();
      watchdog.close();
      await Promise.all([...functions.values()].map((found) => found.end()));
      deno.launcher.close();
      removeFolder(folders.sockets);
    },
  };
}

/** Restores the functions of earlier runs. Returns those that can't be read. */
async function restore({ store, functions, options }: Parts, make: DeployerOptions['make']) {
  const unreadable = new UnreadableFunctions();
  for (const stored of await store.all()) {
    const { ref, name } = stored;
    if ('deployment' in stored) functions.set(keyOf(ref, name), make(ref, name, stored.deployment));
    else {
      unreadable.add(ref, name, stored.unreadable);
      options.log.error({ ref, function: name, why: stored.unreadable }, 'function disabled: its files are unreadable');
    }
  }
  return unreadable;
}

interface Parts {
  gateway: GatewayListener;
  options: FunctionsOptions;
  limits: FunctionLimits;
  deno: Deno;
  folders: Folders;
  functions: Map<string, EdgeFunction>;
  watchdog: Watchdog;
  store: FunctionStore;
  shares: Shares;
  own: OwnAddresses;
  deniedNetworks: readonly string[];
}

/** Returns the resources that all functions of this machine share, for one of them. */
function surroundingsOf(parts: Parts) {
  const { gateway, options, limits, deno, folders, functions, store, watchdog, shares, own, deniedNetworks } = parts;
  let running = 0;
  const owner = (ref: string) => options.owner?.(ref);
  /** Ends the idle function that was not called for the longest. */
  const makeRoom = (mayGiveWay: (of: string) => boolean) => {
    const idle = [...functions.values()].filter(({ idleSince, ref }) => idleSince !== undefined && mayGiveWay(ref));
    idle.sort((a, b) => (a.idleSince as number) - (b.idleSince as number))[0]?.rest();
    return idle.length > 0;
  };
  const admit = (ref: string) => {
    const full = shares.full('isolates', ref);
    if (full !== undefined) {
      const isOfShare = (of: string) => (full === 'project' ? of === ref : owner(of) === owner(ref));
      if (!makeRoom(isOfShare)) throw shares.refusal(full);
    } else if (running >= limits.isolates && !makeRoom(() => true)) {
      throw new Unavailable('NO_ROOM', 'Too many functions run on this machine now', 2);
    }
  };
  return (ref: string, name: string): ConstructorParameters<typeof EdgeFunction>[3] => ({
    limits,
    deno,
    bootstrap: folders.bootstrap,
    sockets: folders.sockets,
    gateway: (incoming, outgoing) => gateway(incoming, outgoing, ref),
    publicPlace: publicPlaceOf(options, ref),
    deniedNetworks,
    ownAddresses: () => own.denied,
    account: accountOf(ref),
    cache: store.cache(ref),
    source: (version) => store.source(ref, name, version),
    environment: () => environmentOf(options.tenant(ref), options.environment(ref)),
    admit: () => admit(ref),
    checkShare: () => shares.check(ref),
    started: (isolate, log) => {
      running += 1;
      const end = shares.begin('isolates', ref);
      void isolate.ended.then(() => {
        running -= 1;
        end();
      });
      watchdog.watch({ ref, isolate, log });
    },
  });
}

/** URL through which functions reach the platform: on one machine its public URL, otherwise the project's own. */
const publicPlaceOf = ({ publicUrl, projectUrl }: FunctionsOptions, ref: string) =>
  projectUrl ? { origin: new URL(projectUrl(ref)).origin, path: `/p/${ref}` } : { origin: publicUrl, path: '' };

/** Owners can't change the platform's variables, because functions rely on them. */
const environmentOf = (tenant: BackendTenant | undefined, own: Record<string, string>): Record<string, string> => ({
  ...own,
  ...(tenant && {
    SUPABASE_URL: tenant.url,
    SUPABASE_ANON_KEY: tenant.anonKey,
    SUPABASE_SERVICE_ROLE_KEY: tenant.serviceRoleKey,
  }),
});

const BOOTSTRAP = fileURLToPath(new URL('./runtime/bootstrap.js', import.meta.url));
const LAST_SOCKETS = 'sockets';
const SOCKETS_PREFIX = 'slipway-fn-';
/** Name of the file with the disk's id. No project can have this name. */
const DISK_NAME = '.disk';

/** Sockets are in the system's temporary folder, because their paths are limited to about a hundred bytes. */
function prepareFolders(home: string): Folders {
  mkdirSync(home, { recursive: true, mode: 0o711 });
  const last = path.join(home, LAST_SOCKETS);
  removeLastSockets(last);
  const sockets = mkdtempSync(path.join(tmpdir(), SOCKETS_PREFIX));
  chmodSync(sockets, 0o711);
  writeFileSync(last, sockets);
  const bootstrap = path.join(sockets, 'bootstrap.js');
  copyFileSync(BOOTSTRAP, bootstrap);
  chmodSync(bootstrap, 0o644);
  const root = reachableFolder(path.join(home, 'deployed'), `functions-${path.basename(path.dirname(home))}`);
  return { root, sockets, bootstrap, disk: nameOfDisk(root) };
}

/** Returns a copy of the file that every account can read, because a home may be closed to functions. */
function copiedAuthorities(file: string | undefined, { sockets }: Folders): string | undefined {
  if (file === undefined) return undefined;
  const copy = path.join(sockets, 'authorities.pem');
  copyFileSync(file, copy);
  chmodSync(copy, 0o644);
  return copy;
}

/**
 * Removes leftovers of an earlier run, if the file contains the path of a folder that this service made. A damaged file
 * never fails a start.
 */
function removeLastSockets(last: string): void {
  const folder = readIfFile(last);
  if (folder !== undefined && path.basename(folder).startsWith(SOCKETS_PREFIX)) removeFolder(folder);
  rmSync(last, { recursive: true, force: true });
}

const DISK_NAME_FORM = /^[0-9a-f-]{36}$/;

/** A disk without a readable id gets a new one, and the operator then deploys every function again. */
function nameOfDisk(root: string): string {
  const file = path.join(root, DISK_NAME);
  const known = readIfFile(file);
  if (known !== undefined && DISK_NAME_FORM.test(known)) return known;
  const name = randomUUID();
  for (const place of [file, `${file}.new`]) rmSync(place, { recursive: true, force: true });
  writeFileSync(`${file}.new`, name, { flush: true });
  renameSync(`${file}.new`, file);
  return name;
}

function readIfFile(file: string): string | undefined {
  return lstatSync(file, { throwIfNoEntry: false })?.isFile() ? readFileSync(file, 'utf8') : undefined;
}
