/**
 * The service behind `/functions/v1`. In: calls; deployments, from the operator over the control socket; each project's
 * environment, from the registry. Out: answers of functions, each run by a Deno process of its own. Parts: `function.ts` (which
 * version and isolate), `isolate.ts` (the process), `deno.ts` (what it may), `watchdog.ts` (what it uses), `store.ts` (on disk).
 */
import { randomUUID } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs';
import type { RequestListener } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Logger } from 'pino';
import { refuse, STARTING } from '../gateway/refusals.js';
import type { Service } from '../service.js';
import type { Tenant } from '../tenant.js';
import { accountOf } from './account.js';
import { answering } from './calls.js';
import { type Deno, installedDeno, reachableFolder } from './deno.js';
import { Deployer } from './deployer.js';
import { EdgeFunction, keyOf } from './function.js';
import { Launcher } from './launcher/launcher.js';
import { type FunctionLimits, LIMITS } from './limits.js';
import { removeFolder } from './removed-folder.js';
import { FunctionStore } from './store.js';
import { Watchdog } from './watchdog.js';

export interface FunctionsOptions {
  /** Where sources and what they import are kept. */
  home: string;
  publicUrl: string;
  /** Where each project has a host of its own: that, and not the public URL, is then reached through the gateway. */
  projectUrl?: ((ref: string) => string) | undefined;
  /** Beyond private ranges, what functions must not reach: IPv4 ranges and single addresses. */
  blockedAddresses?: readonly string[];
  tenant(ref: string): Tenant | undefined;
  /** What a project's owner has set, and the database's URL, as they are now. */
  environment(ref: string): Record<string, string>;
  log: Logger;
  limits?: Partial<FunctionLimits>;
}

type GatewayListener = (...request: [...Parameters<RequestListener>, ref: string]) => void;

export interface FunctionsService extends Service {
  readonly deployer: Deployer;
  /** Names the disk that functions are kept on: on another there are none. */
  readonly disk: string;
  /** Where isolates reach the public URL: the caller hands these requests to the gateway, and is told whose isolate asks. */
  onGatewayRequest(listener: GatewayListener): void;
  /** The environment of a project has changed. */
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
  const deno = { program: installedDeno(), launcher: new Launcher(options.log) };
  const folders = prepareFolders(options.home);
  const functions = new Map<string, EdgeFunction>();
  const watchdog = new Watchdog(limits);
  const store = new FunctionStore(folders.root);
  let onGateway: GatewayListener = (_, outgoing) => refuse(outgoing, STARTING);
  const gateway: GatewayListener = (incoming, outgoing, ref) => onGateway(incoming, outgoing, ref);
  const surroundings = surroundingsOf({ gateway, options, limits, deno, folders, functions, watchdog, store });
  const make = (ref: string, name: string, deployment: EdgeFunction['deployment']) =>
    new EdgeFunction(ref, name, deployment, surroundings(ref, name));
  for (const { ref, name, deployment } of await store.all())
    functions.set(keyOf(ref, name), make(ref, name, deployment));
  if (functions.size > 0) deno.launcher.warmUp();
  const deployer = new Deployer({
    store,
    functions,
    make,
    knows: (ref) => options.tenant(ref) !== undefined,
    deno,
    limits,
    log: options.log,
  });
  const handle = answering({ functions, limits });
  return {
    deployer,
    disk: folders.disk,
    handle,
    onGatewayRequest: (listener) => {
      onGateway = listener;
    },
    refresh: (ref) => {
      for (const found of functions.values()) if (found.ref === ref) found.refresh();
    },
    change: ({ ref }) => {
      for (const found of functions.values()) if (found.ref === ref) found.refresh();
    },
    forget: async (ref) => {
      for (const found of functions.values()) if (found.ref === ref) found.refresh();
    },
    close: async () => {
      watchdog.close();
      await Promise.all([...functions.values()].map((found) => found.end()));
      deno.launcher.close();
      removeFolder(folders.sockets);
    },
  };
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
}

/** What every function of this machine shares, made for one of them. */
function surroundingsOf({ gateway, options, limits, deno, folders, functions, watchdog, store }: Parts) {
  let running = 0;
  /** Whoever has waited longest for a call gives way. */
  const admit = () => {
    if (running < limits.isolates) return true;
    const idle = [...functions.values()].filter(({ idleSince }) => idleSince !== undefined);
    idle.sort((a, b) => (a.idleSince as number) - (b.idleSince as number))[0]?.rest();
    return idle.length > 0;
  };
  return (ref: string, name: string): ConstructorParameters<typeof EdgeFunction>[3] => ({
    limits,
    deno,
    bootstrap: folders.bootstrap,
    sockets: folders.sockets,
    gateway: (incoming, outgoing) => gateway(incoming, outgoing, ref),
    publicPlace: publicPlaceOf(options, ref),
    blockedAddresses: options.blockedAddresses ?? [],
    account: accountOf(ref),
    cache: store.cache(ref),
    source: (version) => store.source(ref, name, version),
    environment: () => environmentOf(options.tenant(ref), options.environment(ref)),
    admit,
    started: (isolate, log) => {
      running += 1;
      void isolate.ended.then(() => {
        running -= 1;
      });
      watchdog.watch({ isolate, log });
    },
  });
}

/** On one machine the platform's whole address, projects' included; else the project's own. */
const publicPlaceOf = ({ publicUrl, projectUrl }: FunctionsOptions, ref: string) =>
  projectUrl ? { origin: new URL(projectUrl(ref)).origin, path: `/p/${ref}` } : { origin: publicUrl, path: '' };

/** The platform's own names are not for the owner to change, as functions rely on them. */
const environmentOf = (tenant: Tenant | undefined, own: Record<string, string>): Record<string, string> => ({
  ...own,
  ...(tenant && {
    SUPABASE_URL: tenant.url,
    SUPABASE_ANON_KEY: tenant.anonKey,
    SUPABASE_SERVICE_ROLE_KEY: tenant.serviceRoleKey,
  }),
});

const BOOTSTRAP = fileURLToPath(new URL('./runtime/bootstrap.js', import.meta.url));
const LAST_SOCKETS = 'sockets';
/** No project is named so. */
const DISK_NAME = '.disk';

/** Sockets are in the system's folder for what is temporary, as the path of one may be no longer than about a hundred bytes. */
function prepareFolders(home: string): Folders {
  mkdirSync(home, { recursive: true, mode: 0o711 });
  const last = path.join(home, LAST_SOCKETS);
  if (existsSync(last)) removeFolder(readFileSync(last, 'utf8'));
  const sockets = mkdtempSync(path.join(tmpdir(), 'slipway-fn-'));
  chmodSync(sockets, 0o711);
  writeFileSync(last, sockets);
  const bootstrap = path.join(sockets, 'bootstrap.js');
  copyFileSync(BOOTSTRAP, bootstrap);
  chmodSync(bootstrap, 0o644);
  const root = reachableFolder(path.join(home, 'deployed'), `functions-${path.basename(path.dirname(home))}`);
  return { root, sockets, bootstrap, disk: nameOfDisk(root) };
}

function nameOfDisk(root: string): string {
  const file = path.join(root, DISK_NAME);
  if (!existsSync(file)) {
    writeFileSync(`${file}.new`, randomUUID());
    renameSync(`${file}.new`, file);
  }
  return readFileSync(file, 'utf8');
}
