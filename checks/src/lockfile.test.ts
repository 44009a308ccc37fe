import { readFileSync } from 'node:fs';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

interface Locked {
  version?: string;
  link?: boolean;
  resolved?: string;
  dependencies?: Record<string, string>;
  optionalDependencies?: Record<string, string>;
}

const LOCKFILES = ['package-lock.json', 'bench/peers/package-lock.json'];

const packagesOf = (file: string): [string, Locked][] => {
  const lock = JSON.parse(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8'));
  return Object.entries(lock.packages);
};

/** Returns the folder to which `name` resolves from the folder `from`: in its own node_modules or in one further up. */
function isFound(packages: ReadonlyMap<string, Locked>, from: string, name: string): boolean {
  for (let folder = from; ; ) {
    if (packages.has(`${folder === '' ? '' : `${folder}/`}node_modules/${name}`)) return true;
    if (folder === '') return false;
    const end = folder.lastIndexOf('/node_modules/');
    folder = end === -1 ? '' : folder.slice(0, end);
  }
}

for (const file of LOCKFILES) {
  // `npm ci` rejects a lockfile without the packages of other platforms, although this platform needs none of them.
  test(`${file} has every package that one of its packages requires, also on other platforms`, () => {
    const entries = packagesOf(file);
    const packages = new Map(entries);
    const missing = entries.flatMap(([folder, { dependencies, optionalDependencies }]) =>
      Object.keys({ ...dependencies, ...optionalDependencies })
        .filter((name) => !isFound(packages, folder, name))
        .map((name) => `${name} of ${folder || 'the workspace'}`),
    );
    assert.equal(missing, []);
  });

  test(`${file} has no URL of a package`, () => {
    const addresses = packagesOf(file).filter(([, { resolved, link }]) => resolved !== undefined && !link);
    assert.equal(
      addresses.map(([folder]) => folder),
      [],
    );
  });
}

test.run();
