/** Reads the operator's settings from the environment, once. An error names the invalid variable. */

import type { AcmeSettings } from '@slipway/certificates';
import {
  BUILDS_AT_ONCE_SETTING,
  type ContainerEngine,
  MACHINE_LABEL_SETTING,
  MACHINE_MOST_SETTING,
  MACHINE_ORPHANS_SETTING,
  MACHINE_SNAPSHOT_SETTING,
  MACHINE_TOKEN_SETTING,
  MACHINE_URL_SETTING,
  type OpenedServices,
  POD_URLS_SETTINGS,
  readBuildsAtOnce,
  readInstallation,
  readMachineLabel,
  readMachineMost,
  readMachineOrphans,
  readMachineSnapshot,
  readMachineUrl,
  readPodUrls,
  type Site,
} from '@slipway/installation';
import {
  fileSettingOf,
  LISTEN_FORM,
  logLevelOf,
  optionalSettingOf,
  type Reach,
  readReach,
  settingOf,
} from '@slipway/program';

export interface SharedSettings {
  /** Path of a kubeconfig. Undefined: the service account of the pod. */
  kubeconfig: string | undefined;
  /** Address for metrics and health: `host:port`, or the path of a Unix socket. */
  listen: string;
  /** URL of the data plane that projects share. */
  dataplaneUrl: string;
  logLevel: string;
  /**
   * The identity of this operator in the Lease. It differs from `processIdentity()` only where several operators run in
   * one process.
   */
  identity?: string;
}

/** The settings on a cluster. All others come from the site's settings. */
export interface ClusterSettings extends SharedSettings {
  site: Site;
  /** URLs of the pods that run functions. None: this installation runs no functions. */
  functionsUrls?: readonly string[];
  /** URLs of the pods that store sites. None: this installation has no deployments. */
  hostingUrls?: readonly string[];
}

export interface MachineSettings extends SharedSettings {
  /** The URL that users enter: `http://localhost:4000`. */
  publicUrl: string;
  /** Undefined: projects are at paths of the public URL. */
  projectsDomain?: string | undefined;
  adminDatabaseUrl: string;
  databasePublicAddress: string;
  /** Undefined: this machine runs no containers. */
  containerEngine?: ContainerEngine | undefined;
  /** Services that the settings open beyond the availability matrix. */
  openedServices?: OpenedServices;
  /** The Unix socket at which the data plane accepts functions. Undefined: this installation runs none. */
  functionsSocket?: string | undefined;
  /** Undefined: this installation runs no builds. */
  builds?: BuildsSettings | undefined;
  /** The folder of the disks of apps. Undefined: this installation runs no apps. */
  appsFolder?: string | undefined;
  /** Networks that projects may connect to. */
  reach?: Reach;
  /** The address of Postgres on this machine, `host:port`. */
  appsDatabase?: string | undefined;
  /** Undefined: this installation orders no certificates. */
  certificates?: { folder: string; acme: AcmeSettings } | undefined;
  /** True if `machines` is set. */
  hasMachines?: boolean;
  /** Undefined: this installation has no provider of machines. */
  machines?: MachinesSettings | undefined;
}

export interface MachinesSettings {
  /** The file of the provider's API token. */
  tokenFile: string;
  /** Undefined: the provider's own address. */
  url: string | undefined;
  /** The label of this installation at the provider. Undefined: it is chosen once. */
  label: string | undefined;
  /** True if new machines boot from a snapshot with the software. */
  snapshot: boolean;
  /** The most machines of projects. */
  maxMachines: number;
  /** True if machines of no project are deleted. */
  deletesOrphans: boolean;
  /** The folder of the packed software. */
  folder: string;
  /** The folder of sockets that lead to machines. */
  sockets: string;
}

export interface BuildsSettings {
  /** The folder for work, caches and logs. */
  folder: string;
  /** The folder of deployments. The data plane serves it. */
  sitesFolder: string;
  /** Maximum number of concurrent builds. */
  atOnce: number;
  /** Networks that builds may connect to. */
  reach: Reach;
  /** A file (PEM) of all certificate authorities that builds trust. Undefined: the system's. */
  certificates: string | undefined;
}

export type OperatorSettings = ClusterSettings | MachineSettings;

type Environment = Record<string, string | undefined>;

export function readSettings(environment: Environment): OperatorSettings {
  const logLevel = logLevelOf(environment);
  const { site, publicUrl, projectsDomain, openedServices, containerEngine, hasMachines } =
    readInstallation(environment);
  const shared = {
    kubeconfig: environment.KUBECONFIG || undefined,
    listen: settingOf(environment, 'SLIPWAY_LISTEN', LISTEN_FORM),
    dataplaneUrl: settingOf(environment, 'SLIPWAY_DATAPLANE_URL', {
      pattern: /^https?:\/\/[^/]+\/?$/,
      like: 'http://127.0.0.1:4000',
    }),
    logLevel,
  };
  const podsOf = (service: 'functions' | 'hosting') =>
    readPodUrls(POD_URLS_SETTINGS[service], environment[POD_URLS_SETTINGS[service]]);
  if (site) return { ...shared, site, functionsUrls: podsOf('functions'), hostingUrls: podsOf('hosting') };
  return {
    ...shared,
    publicUrl,
    projectsDomain,
    adminDatabaseUrl: settingOf(environment, 'SLIPWAY_ADMIN_DATABASE_URL', {
      pattern: /^postgres(ql)?:\/\/[^@]+@/,
      like: 'postgresql://user:password@/postgres?host=/run/postgres&port=4002',
    }),
    databasePublicAddress: settingOf(environment, 'SLIPWAY_DATABASE_PUBLIC_ADDRESS', {
      pattern: /^.+:\d+$/,
      like: '127.0.0.1:4002',
    }),
    openedServices,
    functionsSocket: environment.SLIPWAY_FUNCTIONS_SOCKET || undefined,
    containerEngine,
    appsFolder: environment.SLIPWAY_APPS_DIR || undefined,
    appsDatabase: optionalSettingOf(environment, 'SLIPWAY_APPS_DATABASE', {
      pattern: /^[\d.]+:\d+$/,
      like: '127.0.0.1:4002',
    }),
    reach: readReach(environment),
    builds: readBuilds(environment),
    certificates: readCertificates(environment),
    ...(hasMachines && { hasMachines }),
    machines: hasMachines ? readMachines(environment) : undefined,
  };
}

function readMachines(environment: Environment): MachinesSettings {
  const folder = { pattern: /^\/./, like: '/var/lib/slipway/machines' };
  return {
    tokenFile: settingOf(environment, MACHINE_TOKEN_SETTING, { pattern: /./, like: '/etc/slipway/token' }),
    url: readMachineUrl(environment[MACHINE_URL_SETTING]),
    label: readMachineLabel(environment[MACHINE_LABEL_SETTING]),
    snapshot: readMachineSnapshot(environment[MACHINE_SNAPSHOT_SETTING]),
    maxMachines: readMachineMost(environment[MACHINE_MOST_SETTING]),
    deletesOrphans: readMachineOrphans(environment[MACHINE_ORPHANS_SETTING]),
    folder: settingOf(environment, 'SLIPWAY_MACHINES_DIR', folder),
    sockets: settingOf(environment, 'SLIPWAY_MACHINES_SOCKETS', folder),
  };
}

function readCertificates(environment: Environment): MachineSettings['certificates'] {
  const { SLIPWAY_CERTIFICATES_DIR: folder, SLIPWAY_ACME_DIRECTORY: directory } = environment;
  if (!folder || !directory) return undefined;
  const { SLIPWAY_ACME_EMAIL: email, SLIPWAY_ACME_CERTIFICATES: file } = environment;
  const trusted = file ? fileSettingOf(environment, 'SLIPWAY_ACME_CERTIFICATES') : undefined;
  return { folder, acme: { directory, email: email || undefined, trusted } };
}

function readBuilds(environment: Environment): BuildsSettings | undefined {
  const { SLIPWAY_BUILDS_DIR: folder, SLIPWAY_SITES_DIR: sitesFolder } = environment;
  if (!folder || !sitesFolder) return undefined;
  return {
    folder,
    sitesFolder,
    atOnce: readBuildsAtOnce(environment[BUILDS_AT_ONCE_SETTING]),
    reach: readReach(environment),
    certificates: environment.SLIPWAY_CA_FILE || undefined,
  };
}
