/**
 * The programs of a dedicated project's services, as its machine runs them. In: the platform's proxies, and the text of
 * the project's document. Out: a command and an environment for each unit, and the document's file. Pure.
 */
import type { ProjectService } from '@slipway/crds';
import { DATA_PLANE_NODE_FLAGS } from '@slipway/installation';
import { LOCAL_URL } from './state/nginx.js';
import { PROJECT_FILE, RELEASE, runtimeFolder, stateFolder } from './state/paths.js';
import { SERVICES, type ServiceProgram, type ServiceUnit } from './state/service.js';
import type { MachineFile } from './state/state.js';

const MAIN = `${RELEASE}/dataplane/dist/machine/main.js`;

/** The name of each unit's service in the data plane. */
const SERVICE_OF: Readonly<Record<ServiceUnit, ProjectService>> = {
  auth: 'auth',
  postgrest: 'rest',
  storage: 'storage',
  realtime: 'realtime',
  functions: 'functions',
};

/**
 * The share of the unit's memory for V8's old generation, in percent. It takes precedence over the megabytes of the
 * data plane's options, which are more than a small machine has. Functions share the memory with their isolates.
 */
const HEAP_PERCENT = { service: 60, functions: 25 };

/** The environment that only one unit has. */
const OWN: Partial<Record<ServiceUnit, Readonly<Record<string, string>>>> = {
  storage: { SLIPWAY_STORAGE_DIR: stateFolder('storage') },
  functions: {
    SLIPWAY_FUNCTIONS_DIR: stateFolder('functions'),
    // Only the unit's account and root may connect.
    SLIPWAY_FUNCTIONS_SOCKET: `${runtimeFolder('functions')}/control.sock`,
    SLIPWAY_DATAPLANE_URL: LOCAL_URL,
  },
};

export interface ProjectServicesRequest {
  /** Addresses or networks of the platform's gateway, whose X-Forwarded-For the services trust. */
  trustedProxies: readonly string[];
}

/** Returns the program of each unit. A change of the project's document changes none of them. */
export function projectServices({ trustedProxies }: ProjectServicesRequest): Record<ServiceUnit, ServiceProgram> {
  const programOf = (unit: ServiceUnit): ServiceProgram => {
    const percent = HEAP_PERCENT[unit === 'functions' ? 'functions' : 'service'];
    const flags = [...DATA_PLANE_NODE_FLAGS, `--max-old-space-size-percentage=${percent}`];
    return {
      command: [`${RELEASE}/bin/node`, ...flags, MAIN],
      environment: {
        SLIPWAY_MACHINE_SERVICE: SERVICE_OF[unit],
        SLIPWAY_MACHINE_PROJECT: PROJECT_FILE,
        SLIPWAY_LISTEN: `${runtimeFolder(unit)}/http.sock`,
        SLIPWAY_TRUSTED_PROXIES: trustedProxies.join(','),
        SLIPWAY_LOG_LEVEL: 'info',
        ...OWN[unit],
      },
    };
  };
  return Object.fromEntries(SERVICES.map((unit) => [unit, programOf(unit)])) as Record<ServiceUnit, ServiceProgram>;
}

/**
 * Returns the file of the project's document, for `StateRequest.files`. `text` is from `machineProjectText`. The
 * services watch the file, so no unit restarts when it changes.
 */
export const projectFile = (text: string): MachineFile => ({
  path: PROJECT_FILE,
  mode: 0o640,
  owner: 'root:slipway-project',
  content: text,
});
